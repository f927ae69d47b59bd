"""Signing requests against the real API server: who approves which, and with what result."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.support.cluster.expect import PATIENCE_S, becomes
from tests.support.cluster.whole import Whole

from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError
from podfit.apiserver.auth.certs.certificates import new_key, subject
from podfit.apiserver.front.local import local_client
from podfit.apiserver.request import User
from podfit.client.rest import Client

CSR, ROLE, BINDING = map(kind_named, ("CertificateSigningRequest", "ClusterRole", "ClusterRoleBinding"))
REVIEW = kind_named("SubjectAccessReview")
SERVING, CLIENT = "kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client"
NODE_CLIENT, LEGACY = "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/legacy-unknown"
CLIENT_USAGES = ["digital signature", "key encipherment", "client auth"]
SERVING_USAGES = ["digital signature", "key encipherment", "server auth"]
BOSS = "system:kube-controller-manager"


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncIterator[Whole]:
    async with Whole(tmp_path, nodes=0) as cluster:
        yield cluster


def request(name: str, groups: list[str], signer: str, usages: list[str], *names: str, **spec: Any) -> dict[str, Any]:
    builder = x509.CertificateSigningRequestBuilder(subject(name, groups))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(word) for word in names]), False)
    pem = builder.sign(new_key(), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    asked = {"request": base64.b64encode(pem).decode(), "signerName": signer, "usages": usages, **spec}
    return {"metadata": {"name": "r"}, "spec": asked}


async def approver_of(whole: Whole, signer: str) -> Client:
    """A user who may read requests and approve those of one signer."""
    rules = [
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["get", "create"]},
        {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["certificatesigningrequests/approval"],
            "verbs": ["update"],
        },
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/status"], "verbs": ["update"]},
        {
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["signers"],
            "verbs": ["approve"],
            "resourceNames": [signer],
        },
    ]
    await whole.client.create(ROLE, {"metadata": {"name": "approver"}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "approver"}
    who = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}
    await whole.client.create(BINDING, {"metadata": {"name": "approver"}, "roleRef": role, "subjects": [who]})
    attributes = {"group": "certificates.k8s.io", "resource": "signers", "name": signer, "verb": "approve"}
    review = {"spec": {"user": "jane", "resourceAttributes": attributes}}
    async with asyncio.timeout(PATIENCE_S):
        while not (await whole.client.create(REVIEW, review))["status"]["allowed"]:
            await asyncio.sleep(0)
    return local_client(whole.up.server, User("jane", ("system:authenticated",)), "jane")


async def approve(client: Client) -> None:
    found = await client.get(CSR, "", "r")
    approved = {"type": "Approved", "status": "True", "reason": "ByJane", "message": "fine"}
    await client.update(CSR, {**found, "status": {"conditions": [approved]}}, "approval")


def answered(obj: Any) -> bool:
    status = (obj or {}).get("status") or {}
    return bool(status.get("certificate")) or any(row["type"] == "Failed" for row in status.get("conditions") or ())


async def answer(whole: Whole) -> dict[str, Any]:
    found = await becomes(whole.client, CSR, "", "r", answered)
    assert found is not None
    return dict(found["status"])


async def test_a_user_who_approves_serving_certificates_cannot_obtain_a_client_certificate(whole: Whole) -> None:
    jane = await approver_of(whole, SERVING)
    await jane.create(CSR, request(BOSS, [], SERVING, CLIENT_USAGES, "n1"))
    await approve(jane)
    status = await answer(whole)
    assert "certificate" not in status
    failed = next(row for row in status["conditions"] if row["type"] == "Failed")
    assert (failed["status"], failed["reason"]) == ("True", "SignerValidationFailure")
    assert failed["message"] == "subject organization is not system:nodes"


@pytest.mark.parametrize("signer", [CLIENT, NODE_CLIENT])
async def test_an_approver_of_one_signer_cannot_approve_for_another(whole: Whole, signer: str) -> None:
    jane = await approver_of(whole, SERVING)
    await jane.create(CSR, request(BOSS, [], signer, CLIENT_USAGES))
    with pytest.raises(ApiError, match=f'user not permitted to approve requests with signerName "{signer}"'):
        await approve(jane)


async def test_an_approver_cannot_write_the_certificate_or_a_verdict_of_the_signer(whole: Whole) -> None:
    jane = await approver_of(whole, SERVING)
    await jane.create(CSR, request("system:node:n1", ["system:nodes"], SERVING, CLIENT_USAGES))
    found = await jane.get(CSR, "", "r")
    pem = base64.b64encode(whole.up.server.pki.ca).decode()
    for status in ({"certificate": pem}, {"conditions": [{"type": "Failed", "status": "True"}]}):
        with pytest.raises(ApiError, match="user not permitted to sign requests with signerName"):
            await jane.update(CSR, {**found, "status": status}, "status")


async def test_a_serving_certificate_has_the_requested_names_and_serves_only(whole: Whole) -> None:
    jane = await approver_of(whole, SERVING)
    await jane.create(CSR, request("system:node:n1", ["system:nodes"], SERVING, SERVING_USAGES, "n1", "n1.example.com"))
    await approve(jane)
    certificate = x509.load_pem_x509_certificate(base64.b64decode((await answer(whole))["certificate"]))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["n1", "n1.example.com"]
    usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usages) == [ExtendedKeyUsageOID.SERVER_AUTH]


async def test_of_several_common_names_the_certificate_has_the_one_that_was_checked(whole: Whole) -> None:
    parts = [(NameOID.ORGANIZATION_NAME, "system:nodes"), (NameOID.COMMON_NAME, BOSS)]
    parts += [(NameOID.COMMON_NAME, "system:node:n1")]
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])
    pem = x509.CertificateSigningRequestBuilder(name).sign(new_key(), hashes.SHA256())
    asked = base64.b64encode(pem.public_bytes(serialization.Encoding.PEM)).decode()
    body = {"request": asked, "signerName": NODE_CLIENT, "usages": CLIENT_USAGES}
    await whole.client.create(CSR, {"metadata": {"name": "r"}, "spec": body})
    certificate = x509.load_pem_x509_certificate(base64.b64decode((await answer(whole))["certificate"]))
    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert [item.value for item in found] == ["system:node:n1"]


async def test_a_node_renews_its_own_client_certificate_but_not_another_nodes(whole: Whole) -> None:
    node = local_client(whole.up.server, User("system:node:n1", ("system:nodes", "system:authenticated")), "n1")
    await node.create(CSR, request("system:node:n1", ["system:nodes"], NODE_CLIENT, CLIENT_USAGES))
    approved = next(row for row in (await answer(whole))["conditions"] if row["type"] == "Approved")
    assert approved["message"] == "Auto approving self kubelet client certificate after SubjectAccessReview."
    other = request("system:node:n2", ["system:nodes"], NODE_CLIENT, CLIENT_USAGES)
    other["metadata"]["name"] = "other"
    with pytest.raises(ApiError, match="can only create a node CSR with CN=system:node:n1"):
        await node.create(CSR, other)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"signerName": LEGACY}, "the legacy signerName is not allowed via this API version"),
        ({"usages": ["client auth", "world peace"]}, 'spec.usages[1]: Unsupported value: "world peace"'),
        ({"usages": ["client auth", "client auth"]}, 'spec.usages[1]: Duplicate value: "client auth"'),
        ({"request": base64.b64encode(b"nonsense").decode()}, "PEM block type must be CERTIFICATE REQUEST"),
    ],
)
async def test_a_request_without_a_possible_signer_is_invalid(whole: Whole, change: dict[str, Any], said: str) -> None:
    with pytest.raises(ApiError) as refused:
        body = request("jane", [], CLIENT, CLIENT_USAGES)
        await whole.client.create(CSR, {**body, "spec": {**body["spec"], **change}})
    assert refused.value.code == 422 and said in str(refused.value)


async def test_no_certificate_request_grants_administrator_rights(whole: Whole) -> None:
    with pytest.raises(ApiError, match="signer with system:masters group is not allowed"):
        await whole.client.create(CSR, request("jane", ["system:masters"], CLIENT, CLIENT_USAGES))


async def test_an_answer_stays(whole: Whole) -> None:
    jane = await approver_of(whole, CLIENT)
    await jane.create(CSR, request("bob", ["team"], CLIENT, CLIENT_USAGES, expirationSeconds=3600))
    await approve(jane)
    await answer(whole)
    found = await whole.client.get(CSR, "", "r")
    other = base64.b64encode(whole.up.server.pki.ca).decode()
    with pytest.raises(ApiError, match="updates may not modify existing certificate content"):
        await whole.client.update(CSR, {**found, "status": {**found["status"], "certificate": other}}, "status")
    with pytest.raises(ApiError, match='updates may not remove a condition of type "Approved"'):
        await whole.client.update(CSR, {**found, "status": {}}, "approval")
