"""Each signer signs its own kind of certificate and nothing else."""

from __future__ import annotations

import base64
import ipaddress
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from podfit.apiserver.auth.certs.certificates import new_key
from podfit.controllers.certificates.controller import rights_to_ask
from podfit.controllers.certificates.signers import CLIENT, NODE_CLIENT, SERVING, objection, read_request

DNS, IP = x509.DNSName("n1"), x509.IPAddress(ipaddress.ip_address("10.0.0.1"))
EMAIL, URI = x509.RFC822Name("a@example.com"), x509.UniformResourceIdentifier("spiffe://a")
NODE = ("system:node:n1", ("system:nodes",))
BOSS = ("system:kube-controller-manager", ())
CLIENT_USAGES = ("digital signature", "key encipherment", "client auth")
SERVING_USAGES = ("digital signature", "key encipherment", "server auth")
NOT_NODES = "subject organization is not system:nodes"
NOT_A_NODE = "subject common name does not begin with system:node:"


def request(subject: tuple[str, tuple[str, ...]], *names: x509.GeneralName) -> bytes:
    name, groups = subject
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    builder = x509.CertificateSigningRequestBuilder(x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)]))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(names)), False)
    return builder.sign(new_key(), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def verdict(signer: str, pem: bytes, usages: tuple[str, ...]) -> str:
    return objection(signer, read_request(pem), usages)


@pytest.mark.parametrize(
    ("subject", "names", "usages", "said"),
    [
        (NODE, (), CLIENT_USAGES, ""),
        (NODE, (), ("client auth", "digital signature"), ""),
        (BOSS, (), CLIENT_USAGES, NOT_NODES),
        (("system:node:n1", ()), (), CLIENT_USAGES, NOT_NODES),
        (("system:node:n1", ("system:masters",)), (), CLIENT_USAGES, NOT_NODES),
        (("system:node:n1", ("system:nodes", "system:masters")), (), CLIENT_USAGES, NOT_NODES),
        (("n1", ("system:nodes",)), (), CLIENT_USAGES, NOT_A_NODE),
        (NODE, (DNS,), CLIENT_USAGES, "DNS subjectAltNames are not allowed"),
        (NODE, (EMAIL,), CLIENT_USAGES, "Email subjectAltNames are not allowed"),
        (NODE, (IP,), CLIENT_USAGES, "IP subjectAltNames are not allowed"),
        (NODE, (URI,), CLIENT_USAGES, "URI subjectAltNames are not allowed"),
        (NODE, (), SERVING_USAGES, "usages did not match [client auth digital signature key encipherment]"),
        (
            NODE,
            (),
            (*CLIENT_USAGES, "server auth"),
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (NODE, (), ("client auth",), "usages did not match [client auth digital signature key encipherment]"),
    ],
)
def test_the_signer_of_node_clients(subject: Any, names: Any, usages: Any, said: str) -> None:
    assert verdict(NODE_CLIENT, request(subject, *names), usages) == said


@pytest.mark.parametrize(
    ("subject", "names", "usages", "said"),
    [
        (NODE, (DNS,), SERVING_USAGES, ""),
        (NODE, (DNS, IP), ("server auth", "digital signature"), ""),
        (BOSS, (DNS,), CLIENT_USAGES, NOT_NODES),
        (BOSS, (DNS,), SERVING_USAGES, NOT_NODES),
        (("system:kube-controller-manager", ("system:nodes",)), (DNS,), SERVING_USAGES, NOT_A_NODE),
        (NODE, (), SERVING_USAGES, "DNS or IP subjectAltName is required"),
        (NODE, (DNS, EMAIL), SERVING_USAGES, "Email subjectAltNames are not allowed"),
        (NODE, (DNS, URI), SERVING_USAGES, "URI subjectAltNames are not allowed"),
        (NODE, (DNS,), CLIENT_USAGES, "usages did not match [digital signature key encipherment server auth]"),
        (
            NODE,
            (DNS,),
            (*SERVING_USAGES, "client auth"),
            "usages did not match [digital signature key encipherment server auth]",
        ),
    ],
)
def test_the_signer_of_what_nodes_serve_with(subject: Any, names: Any, usages: Any, said: str) -> None:
    assert verdict(SERVING, request(subject, *names), usages) == said


@pytest.mark.parametrize(
    ("usages", "said"),
    [
        (CLIENT_USAGES, ""),
        (("client auth",), ""),
        (("digital signature",), "missing required usage for client certificate: client auth"),
        (("client auth", "server auth"), "invalid usage for client certificate: server auth"),
        (("client auth", "cert sign"), "invalid usage for client certificate: cert sign"),
    ],
)
def test_the_signer_of_other_clients(usages: tuple[str, ...], said: str) -> None:
    assert verdict(CLIENT, request(("jane", ("team",)), EMAIL), usages) == said


def asking(user: str, pem: bytes, signer: str = NODE_CLIENT, usages: tuple[str, ...] = CLIENT_USAGES) -> dict[str, Any]:
    return {"username": user, "request": base64.b64encode(pem).decode(), "signerName": signer, "usages": list(usages)}


def test_a_node_may_renew_its_own_certificate_and_request_others_only_as_a_bootstrapper() -> None:
    own = request(NODE)
    assert rights_to_ask(asking("system:node:n1", own)) == ("selfnodeclient", "nodeclient")
    assert rights_to_ask(asking("system:node:n2", own)) == ("nodeclient",)


@pytest.mark.parametrize(
    "spec",
    [
        asking("system:bootstrap:x", request(BOSS)),
        asking("system:bootstrap:x", request(NODE, DNS)),
        asking("system:bootstrap:x", request(NODE), usages=SERVING_USAGES),
        asking("system:bootstrap:x", request(NODE), signer=CLIENT),
        asking("system:bootstrap:x", request(NODE, DNS), signer=SERVING, usages=SERVING_USAGES),
        asking("system:bootstrap:x", b"nonsense"),
    ],
)
def test_nothing_but_a_node_client_is_approved_automatically(spec: dict[str, Any]) -> None:
    assert rights_to_ask(spec) == ()
