"""A running node renews its certificates: requests, approval, and the certificates of connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from tests.support.cluster.expect import all_become
from tests.support.cluster.whole import Whole

from podfit.agent.node.rotation import CLIENT, SERVING, Purpose, Rotation
from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.client.kubeconfig import Access
from podfit.client.rest import Client
from podfit.compose import node_user
from podfit.kit.clock import RealClock

PATIENCE_S = 30.0
CSR, REVIEW = kind_named("CertificateSigningRequest"), kind_named("SelfSubjectReview")


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncIterator[Whole]:
    async with Whole(tmp_path) as cluster:
        yield cluster


async def renewed(whole: Whole, purpose: Purpose, *names: str) -> x509.Certificate:
    """The certificates of a node that has none yet."""
    kept: asyncio.Queue[bytes] = asyncio.Queue()
    client = whole.up.client(node_user("n1"), "node")
    rotation = Rotation(client, "n1", purpose, lambda cert, key: kept.put_nowait(cert), RealClock(), names)
    running = asyncio.create_task(rotation.run(None))
    try:
        if purpose is SERVING:
            await approve(whole)
        return x509.load_pem_x509_certificate(await asyncio.wait_for(kept.get(), PATIENCE_S))
    finally:
        running.cancel()


async def approve(whole: Whole) -> None:
    """An approver for serving certificates that knows the node's names."""

    def asked(rows: list[Object]) -> bool:
        return any(row["spec"]["signerName"] == SERVING.signer for row in rows)

    rows = await all_become(whole.client, CSR, "", asked)
    request = next(row for row in rows if row["spec"]["signerName"] == SERVING.signer)
    approved = {"type": "Approved", "status": "True", "reason": "Test", "message": "it is this node"}
    await whole.client.update(CSR, {**request, "status": {"conditions": [approved]}}, "approval")


def common_name(certificate: x509.Certificate) -> str:
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


async def test_a_client_certificate_is_renewed_without_anybody_elses_approval(whole: Whole) -> None:
    assert common_name(await renewed(whole, CLIENT)) == "system:node:n1"


async def test_a_serving_certificate_has_the_names_that_were_approved(whole: Whole) -> None:
    certificate = await renewed(whole, SERVING, "n1", "10.0.0.7")
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["n1"]
    assert [str(item) for item in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7"]


async def test_connections_show_the_new_certificate_from_the_next_request_on(whole: Whole) -> None:
    pki, server = whole.up.server.pki, whole.up.server
    first, second = pki.node("n1"), pki.node("n2")
    transport = Access(server.url, ca=pki.ca, cert=first.cert, key=first.key).transport("node")
    client = Client(transport)

    async def who() -> str:
        body = {"apiVersion": REVIEW.api_version, "kind": REVIEW.kind, "metadata": {}}
        return str((await client.create(REVIEW, body))["status"]["userInfo"]["username"])

    try:
        assert await who() == "system:node:n1"
        transport.show_certificate(second.cert, second.key)
        assert await who() == "system:node:n2"
    finally:
        await client.close()
