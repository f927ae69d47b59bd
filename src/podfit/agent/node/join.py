"""Joins a cluster: a bootstrap token is exchanged for a certificate, which is the node's identity from then on.

The private key is created here and never sent; only a CertificateSigningRequest is. A valid identity is reused, so that
a restart needs no token.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import secrets
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.client.kubeconfig import Access, BadKubeconfig, load
from podfit.client.rest import Client
from podfit.client.transport import Unreachable
from podfit.kit.files.atomicfile import write_atomic

log = logging.getLogger(__name__)

CSR = kind_named("CertificateSigningRequest")
SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
_RENEW_BEFORE = timedelta(days=7)
_TIMEOUT_S = 900.0
_WATCH_AGAIN_S = 2.0
_NOTICE_S, _NOTICE_MOST_S = 5.0, 60.0
"""When the first line about the pending request is logged; the intervals between the next ones double up to the second
value."""


class JoinRefused(Exception):
    """The cluster did not issue a certificate; the message gives the cause."""


async def join(access: Access, node: str, file: Path) -> Access:
    """Joins the cluster: returns the node's own access, stored in the kubeconfig `file`; `access` carries the bootstrap
    token."""
    known = _known(file, node)
    if known is not None:
        return known
    key = ec.generate_private_key(ec.SECP256R1())
    cert = await _certificate(access, node, _request(node, key))
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    own = replace(access, token="", token_file="", cert=cert, key=pem)
    keep_identity(own, node, file)
    return own


def keep_identity(own: Access, node: str, file: Path) -> None:
    """Stores the identity in the kubeconfig `file`, where the next start reads it."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(file, json.dumps(_kubeconfig(own, node), indent=2).encode())


def _known(file: Path, node: str) -> Access | None:
    """The identity of an earlier join, if it belongs to this node and stays valid for a while."""
    if not file.exists():
        return None
    try:
        found = load(str(file))
    except BadKubeconfig:
        return None
    if not found.cert:
        return None
    certificate = x509.load_pem_x509_certificate(found.cert)
    names = [attribute.value for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    fresh = certificate.not_valid_after_utc - _RENEW_BEFORE > datetime.now(UTC)
    return found if fresh and names == [f"system:node:{node}"] else None


def _request(node: str, key: ec.EllipticCurvePrivateKey) -> bytes:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
        ]
    )
    signed = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


async def _certificate(access: Access, node: str, request: bytes) -> bytes:
    client = Client(access.transport("podfit-join"))
    try:
        return await issued(client, node, request, SIGNER, ("digital signature", "client auth"))
    finally:
        await client.close()


async def issued(client: Client, node: str, request: bytes, signer: str, usages: Sequence[str]) -> bytes:
    """The certificate for a signing request, as soon as it is approved and signed."""
    body: Object = {
        "apiVersion": CSR.api_version,
        "kind": CSR.kind,
        "metadata": {"name": f"node-csr-{secrets.token_hex(8)}"},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": signer,
            "usages": list(usages),
        },
    }
    made = await client.create(CSR, body)
    return await _Waiting(client, node, made["metadata"]["name"]).certificate()


class _Waiting:
    """Waits for a signing request, and logs periodically what is missing."""

    def __init__(self, client: Client, node: str, name: str) -> None:
        self._client, self._node, self._name = client, node, name
        self._approved = False

    async def certificate(self) -> bytes:
        events = asyncio.ensure_future(self._notice())
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                while (found := await self._issued()) is None:
                    await asyncio.sleep(_WATCH_AGAIN_S)
                return found
        except TimeoutError:
            minutes = _TIMEOUT_S / 60
            raise JoinRefused(f"no certificate for node {self._node} in {minutes:.0f} min: {self.missing}") from None
        finally:
            events.cancel()

    @property
    def missing(self) -> str:
        if self._approved:
            return (
                f"request {self._name} is approved but not signed. Is a signer running "
                "(podfit controllers --cluster-signing-cert-file … --cluster-signing-key-file …)?"
            )
        return f"request {self._name} is not approved. Approve it with: kubectl certificate approve {self._name}"

    async def _notice(self) -> None:
        pause = _NOTICE_S
        while True:
            await asyncio.sleep(pause)
            log.warning("waiting for the certificate of node %s: %s", self._node, self.missing)
            pause = min(pause * 2, _NOTICE_MOST_S)

    async def _issued(self) -> bytes | None:
        """The issued certificate; None if the watch ended first."""
        try:
            return await self._answer()
        except Unreachable as error:
            log.warning("waiting for the certificate of node %s: %s", self._node, error)
            return None

    async def _answer(self) -> bytes | None:
        query = {"fieldSelector": f"metadata.name={self._name}", "resourceVersion": "0"}
        async with aclosing(self._client.watch(CSR, **query)) as events:
            async for event, obj in events:
                if event == "DELETED":
                    raise JoinRefused(f"request {self._name} was deleted")
                status = obj.get("status") or {}
                for condition in status.get("conditions") or []:
                    if condition["type"] in ("Denied", "Failed"):
                        raise JoinRefused(f"{condition['type']}: {condition.get('message', '')}")
                    self._approved = self._approved or condition["type"] == "Approved"
                if status.get("certificate"):
                    return base64.b64decode(status["certificate"])
        return None


def _kubeconfig(access: Access, node: str) -> Object:
    def encoded(data: bytes | None) -> str:
        return base64.b64encode(data or b"").decode()

    cluster: Object = {"server": access.server}
    if access.ca:
        cluster["certificate-authority-data"] = encoded(access.ca)
    if access.insecure:
        cluster["insecure-skip-tls-verify"] = True
    user = {"client-certificate-data": encoded(access.cert), "client-key-data": encoded(access.key)}
    name = f"system:node:{node}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "podfit", "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "podfit", "context": {"cluster": "podfit", "user": name}}],
        "current-context": "podfit",
    }
