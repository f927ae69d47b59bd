"""Certificates and tokens: how they are issued, which are accepted, and which no longer are."""

from __future__ import annotations

import base64
import hmac
import json
import ssl
import stat
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from tests.support.servers.signing import new_request

from podfit.api.registry.kinds import NODE, POD, kind_named
from podfit.api.status import ApiError
from podfit.apiserver.auth.authenticate import Authenticator, without_bearer
from podfit.apiserver.auth.certs.certificates import BadRequestPem, new_key
from podfit.apiserver.auth.certs.kubeconfigs import write_kubeconfig
from podfit.apiserver.auth.certs.pki import CERT_TTL, Pki
from podfit.apiserver.auth.certs.signing import SubjectRefused
from podfit.apiserver.auth.other_tokens import BootstrapTokens, StaticTokens
from podfit.apiserver.auth.tokens import ServiceAccountTokens
from podfit.apiserver.request import User
from podfit.kit.clock import FakeClock, rfc3339

ACCOUNT, SECRET = kind_named("ServiceAccount"), kind_named("Secret")


@pytest.fixture(scope="module")
def pki(tmp_path_factory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki") / "pki", ["example.org", "192.0.2.7"])


def peer_of(server: ssl.SSLContext, client: ssl.SSLContext):
    """Performs a TLS handshake in memory; returns the client's certificate as the server sees it."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    calling = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    for _ in range(6):
        for side in (calling, serving):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
    return serving.getpeercert()


def client_tls(pki: Pki, tmp_path, pair) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=pki.ca.decode())
    (tmp_path / "crt").write_bytes(pair.cert)
    (tmp_path / "key").write_bytes(pair.key)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    return context


def test_files_are_their_owners_only_and_stay_the_same(pki):
    for path in pki.folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    before = {path.name: path.read_bytes() for path in pki.folder.iterdir()}
    again = Pki(pki.folder, ["example.org"])
    assert again.ca == pki.ca
    assert {path.name: path.read_bytes() for path in pki.folder.iterdir()} == before


def test_new_name_gets_a_new_serving_certificate_from_the_same_authority(tmp_path):
    first = Pki(tmp_path / "pki")
    serving = first.serving.cert
    second = Pki(tmp_path / "pki", ["new.example.org"])
    assert second.ca == first.ca and second.serving.cert != serving
    names = x509.load_pem_x509_certificate(second.serving.cert).extensions
    found = names.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"new.example.org", "localhost", "kubernetes.default.svc"} <= set(found.get_values_for_type(x509.DNSName))
    assert {"127.0.0.1", "::1", "10.96.0.1"} <= {str(ip) for ip in found.get_values_for_type(x509.IPAddress)}


def test_client_certificate_is_name_and_groups(pki, tmp_path):
    peer = peer_of(pki.server_tls(), client_tls(pki, tmp_path, pki.admin))
    user = Authenticator().authenticate({}, peer)
    assert (user.name, user.groups) == ("kubernetes-admin", ("system:masters", "system:authenticated"))


def test_expired_client_certificate_is_a_401_not_a_broken_handshake(pki, tmp_path):
    expired = pki.issue_client_cert("jane", (), timedelta(minutes=-1))
    peer = peer_of(pki.server_tls(), client_tls(pki, tmp_path, expired))
    with pytest.raises(ApiError) as caught:
        Authenticator().authenticate({}, peer)
    assert (caught.value.code, caught.value.message) == (401, "Unauthorized")


def test_certificate_of_a_stranger_does_not_get_in(pki, tmp_path):
    stranger = Pki(tmp_path / "other").issue_client_cert("x", ("system:masters",))
    with pytest.raises(ssl.SSLError):
        peer_of(pki.server_tls(), client_tls(pki, tmp_path, stranger))


def test_the_front_proxy_authenticates_others_and_never_itself(pki, tmp_path):
    peer = peer_of(pki.server_tls(), client_tls(pki, tmp_path, pki.front_proxy_client))
    trusting = Authenticator()
    user = trusting.authenticate({"x-remote-user": "jane", "x-remote-group": "a\nb,system:masters"}, peer)
    assert (user.name, user.groups) == ("jane", ("a", "b,system:masters", "system:authenticated"))
    with pytest.raises(ApiError):
        trusting.authenticate({}, peer)
    admin = peer_of(pki.server_tls(), client_tls(pki, tmp_path, pki.admin))
    assert trusting.authenticate({"x-remote-user": "jane"}, admin).name == "kubernetes-admin"


def test_signed_request_is_a_certificate_of_the_authority_but_never_an_administrator(pki):
    cert = x509.load_pem_x509_certificate(pki.signer(new_request("bob", ["team"], new_key()), ["client auth"], 3600))
    cert.verify_directly_issued_by(pki.authority.cert)
    with pytest.raises(BadRequestPem):
        pki.signer(b"nonsense", ["client auth"], None)
    with pytest.raises(SubjectRefused, match="system:masters"):
        pki.signer(new_request("eve", ["system:masters"], new_key()), ["client auth"], None)


def test_kubeconfig_holds_everything_and_is_private(pki, tmp_path):
    path = tmp_path / "deep" / "config"
    write_kubeconfig(path, "https://127.0.0.1:6443", pki.ca, pair=pki.admin)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    document = json.loads(path.read_text())
    data = document["clusters"][0]["cluster"]["certificate-authority-data"]
    assert base64.b64decode(data) == pki.ca
    assert document["users"][0]["user"].keys() == {"client-certificate-data", "client-key-data"}


def test_bad_token_is_a_401_and_never_anonymous():
    with pytest.raises(ApiError) as caught:
        Authenticator().authenticate({"authorization": "Bearer nonsense"})
    assert caught.value.to_status()["reason"] == "Unauthorized"


@pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "nonsense"])
def test_only_bearer_tokens_are_credentials(header):
    assert Authenticator().authenticate({"authorization": header}).name == "system:anonymous"


class _Known:
    def authenticate_token(self, token):
        return User("browser") if token == "secret" else None


@pytest.mark.parametrize(
    ("protocols", "name"),
    [
        ("v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0", "browser"),
        ("base64url.bearer.authorization.k8s.io.c2VjcmV0", None),
        ("v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.bm90aGluZw", None),
        ("v5.channel.k8s.io, base64url.bearer.authorization.k8s.io._w", None),
        ("v5.channel.k8s.io", "system:anonymous"),
    ],
)
def test_browsers_name_their_token_among_the_protocols_of_a_websocket(protocols, name):
    authenticator = Authenticator([_Known()])
    headers = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-protocol": protocols}
    if name is None:
        with pytest.raises(ApiError):
            authenticator.authenticate(headers)
    else:
        assert authenticator.authenticate(headers).name == name
    assert authenticator.authenticate({"sec-websocket-protocol": protocols}).name == "system:anonymous"


def test_a_token_among_the_protocols_is_not_passed_on():
    assert without_bearer("a, base64url.bearer.authorization.k8s.io.x, b") == "a, b"


@pytest.mark.parametrize(("asked_s", "given"), [(3600, timedelta(hours=1)), (None, CERT_TTL), (10**9, CERT_TTL)])
def test_a_certificate_holds_as_long_as_was_requested_but_no_longer_than_usual(pki, asked_s, given):
    made = pki.signer(new_request("bob", ["team"], new_key()), ["client auth"], asked_s)
    certificate = x509.load_pem_x509_certificate(made)
    lifetime = certificate.not_valid_after_utc - datetime.now(UTC)
    assert abs(lifetime - given) < timedelta(minutes=10)


def test_unauthenticated_requests_are_anonymous_unless_disabled():
    assert Authenticator().authenticate({}).name == "system:anonymous"
    with pytest.raises(ApiError):
        Authenticator(anonymous=False).authenticate({})


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def tokens(pki, objects, clock) -> ServiceAccountTokens:
    objects.put(ACCOUNT, {"metadata": {"name": "robot", "namespace": "ns", "uid": "u1"}})
    objects.put(NODE, {"metadata": {"name": "n1", "uid": "u2"}})
    spec = {"serviceAccountName": "robot", "nodeName": "n1"}
    objects.put(POD, {"metadata": {"name": "p", "namespace": "ns", "uid": "u3"}, "spec": spec})
    return ServiceAccountTokens(pki.signing_key, objects, clock=clock)


def bound(**ref: str):
    return {"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", **ref}}}


def test_token_names_its_account_pod_and_node(tokens):
    answer = tokens.token_request("ns", "robot", bound())
    user = tokens.authenticate_token(answer["status"]["token"])
    assert user.name == "system:serviceaccount:ns:robot" and user.uid == "u1"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
    assert user.extra["authentication.kubernetes.io/pod-name"] == ("p",)
    assert user.extra["authentication.kubernetes.io/node-name"] == ("n1",)


def test_a_token_is_bound_to_a_pod_whatever_version_is_named(tokens):
    answer = tokens.token_request("ns", "robot", {**bound(apiVersion=""), "metadata": {"labels": {"a": "b"}}})
    assert answer["spec"]["boundObjectRef"]["name"] == "p"
    assert answer["metadata"].items() >= {"name": "robot", "namespace": "ns", "labels": {"a": "b"}}.items()


async def test_token_ends_with_its_time(tokens, clock):
    answer = tokens.token_request("ns", "robot", {"spec": {"expirationSeconds": 600}})
    token = answer["status"]["token"]
    assert answer["status"]["expirationTimestamp"] == rfc3339(clock.now() + 600)
    assert tokens.authenticate_token(token)
    await clock.advance(601)
    with pytest.raises(ApiError):
        tokens.authenticate_token(token)


async def test_mounted_token_outlives_its_hour_for_old_clients(tokens, clock):
    request = bound()
    request["spec"]["expirationSeconds"] = 3607
    token = tokens.token_request("ns", "robot", request)["status"]["token"]
    await clock.advance(24 * 3600)
    assert tokens.authenticate_token(token)


def test_token_falls_with_its_pod_and_with_its_account(tokens, objects):
    token = tokens.token_request("ns", "robot", bound())["status"]["token"]
    plain = tokens.token_request("ns", "robot", {})["status"]["token"]
    objects.drop(POD, "ns", "p")
    with pytest.raises(ApiError):
        tokens.authenticate_token(token)
    assert tokens.authenticate_token(plain)
    objects.put(ACCOUNT, {"metadata": {"name": "robot", "namespace": "ns", "uid": "another"}})
    with pytest.raises(ApiError):
        tokens.authenticate_token(plain)


def test_token_for_others_is_not_for_us_but_we_know_whose_it_is(tokens):
    token = tokens.token_request("ns", "robot", {"spec": {"audiences": ["vault"]}})["status"]["token"]
    with pytest.raises(ApiError):
        tokens.authenticate_token(token)
    assert tokens.authenticate_for(token, ["vault"]).name == "system:serviceaccount:ns:robot"


def test_a_token_is_verified_in_the_one_way_it_was_signed(tokens):
    """Tokens are accepted neither unsigned, nor signed with the public key as if it were a secret."""
    good = tokens.token_request("ns", "robot", {"spec": {}})["status"]["token"]
    claims = good.split(".")[1]
    public = json.dumps(tokens.jwks()["keys"][0]).encode()
    for algorithm, secret in (("none", None), ("HS256", public)):
        head = base64.urlsafe_b64encode(json.dumps({"alg": algorithm, "typ": "JWT"}).encode()).rstrip(b"=").decode()
        signed = f"{head}.{claims}"
        mark = hmac.new(secret, signed.encode(), "sha256").digest() if secret else b""
        forged = f"{signed}.{base64.urlsafe_b64encode(mark).rstrip(b'=').decode()}"
        with pytest.raises(ApiError):
            Authenticator([tokens]).authenticate({"authorization": f"Bearer {forged}"})
    assert Authenticator([tokens]).authenticate({"authorization": f"Bearer {good}"}).name.endswith("ns:robot")


def test_token_of_another_key_is_not_ours(tokens, objects, clock):
    stranger = ServiceAccountTokens(new_key(), objects, clock=clock)
    forged = stranger.token_request("ns", "robot", {})["status"]["token"]
    assert tokens.authenticate_token(forged) is None
    head, body, signature = tokens.token_request("ns", "robot", {})["status"]["token"].split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    claims["sub"] = "system:admin"
    tampered = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    assert tokens.authenticate_token(f"{head}.{tampered}.{signature}") is None
    unsigned = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    assert tokens.authenticate_token(f"{unsigned}.{body}.") is None


@pytest.mark.parametrize(
    ("request_body", "code", "message"),
    [
        ({"spec": {"expirationSeconds": 5}}, 422, "may not specify a duration less than 10 minutes"),
        (bound(name="none"), 404, 'pods "none" not found'),
        (bound(uid="wrong"), 409, "does not match the UID in record"),
        (
            bound(uid="wrong"),
            409,
            'Operation cannot be fulfilled on Pod "p": the UID in the bound object reference (wrong)',
        ),
        (bound(kind="ConfigMap"), 400, "cannot bind token to object of type /v1, Kind=ConfigMap"),
        (bound(apiVersion="apps/v1"), 400, "cannot bind token to object of type apps/v1, Kind=Pod"),
        ({"spec": {"boundObjectRef": {}}}, 400, "cannot bind token to object of type /, Kind="),
        (
            {"metadata": {"name": "other"}},
            422,
            'TokenRequest.authentication.k8s.io "robot" is invalid: metadata.name: Invalid value: "other": '
            "must match the service account name if specified",
        ),
        (
            {"metadata": {"uid": "u9"}},
            409,
            'Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "robot": '
            "the UID in the token request (u9) does not match the UID of the service account (u1)",
        ),
    ],
)
def test_token_requests_that_cannot_be_met_say_why(tokens, request_body, code, message):
    with pytest.raises(ApiError) as caught:
        tokens.token_request("ns", "robot", request_body)
    assert caught.value.code == code and message in caught.value.message


def test_static_tokens_come_from_lines(tmp_path):
    path = tmp_path / "tokens.csv"
    path.write_text('abc,jane,7,"dev,ops"\nxyz,bob,8\n')
    user = Authenticator([StaticTokens.load(path)]).authenticate({"authorization": "Bearer abc"})
    assert (user.name, user.uid, user.groups) == ("jane", "7", ("dev", "ops", "system:authenticated"))
    path.write_text("onlyatoken\n")
    with pytest.raises(ValueError, match=":1:"):
        StaticTokens.load(path)


def bootstrap_secret(**more: str):
    data = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true", **more}
    return {
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }


def test_bootstrap_token_is_good_until_it_expires_or_is_for_something_else(objects, clock):
    source = BootstrapTokens(objects, clock)
    objects.put(SECRET, bootstrap_secret(**{"auth-extra-groups": "system:bootstrappers:x,system:masters"}))
    user = source.authenticate_token("abcdef.0123456789abcdef")
    assert user.name == "system:bootstrap:abcdef"
    assert user.groups == ("system:bootstrappers", "system:bootstrappers:x")
    assert source.authenticate_token("not-one") is None
    for secret in (
        bootstrap_secret(expiration=rfc3339(clock.now() - 1)),
        bootstrap_secret(**{"usage-bootstrap-authentication": "false"}),
        bootstrap_secret(**{"token-secret": "another-0123456"}),
    ):
        objects.put(SECRET, secret)
        with pytest.raises(ApiError):
            source.authenticate_token("abcdef.0123456789abcdef")
