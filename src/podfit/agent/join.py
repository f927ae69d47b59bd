"""Joining a cluster: a bootstrap token buys a certificate, the certificate is the node's identity from then on.

The key is made here and never leaves; what travels is a CertificateSigningRequest. An identity that is still good is
used again, so that a restart needs no token.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from podfit.api.kinds import kind_named
from podfit.api.status import Object
from podfit.client.kubeconfig import Access, BadKubeconfig, load
from podfit.client.rest import Client
from podfit.kit.atomicfile import write_atomic

CSR = kind_named("CertificateSigningRequest")
SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
_RENEW_BEFORE = timedelta(days=7)
_PATIENCE_S = 60.0


class JoinRefused(Exception):
    """The cluster did not issue a certificate; the message says why."""


async def join(access: Access, node: str, file: Path) -> Access:
    """The node's own access, kept in the kubeconfig `file`; `access` carries the bootstrap token."""
    known = _known(file, node)
    if known is not None:
        return known
    key = ec.generate_private_key(ec.SECP256R1())
    cert = await _certificate(access, node, _request(node, key))
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    own = replace(access, token="", token_file="", cert=cert, key=pem)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(file, json.dumps(_kubeconfig(own, node), indent=2).encode())
    return own


def _known(file: Path, node: str) -> Access | None:
    """The identity of an earlier join, if it is this node's and good for a while."""
    if not file.exists():
        return None
    try:
        found = load(str(file))
    except BadKubeconfig:
        return None
    if not found.cert:
        return None
    certificate = x509.load_pem_x509_certificate(found.cert)
    names = [one.value for one in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
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
        body: Object = {
            "apiVersion": CSR.api_version,
            "kind": CSR.kind,
            "metadata": {"name": f"node-csr-{secrets.token_hex(8)}"},
            "spec": {
                "request": base64.b64encode(request).decode(),
                "signerName": SIGNER,
                "usages": ["digital signature", "client auth"],
            },
        }
        made = await client.create(CSR, body)
        async with asyncio.timeout(_PATIENCE_S):
            return await _issued(client, made)
    except TimeoutError:
        raise JoinRefused(f"no certificate for node {node} within {_PATIENCE_S:.0f} s: is a signer running?") from None
    finally:
        await client.close()


async def _issued(client: Client, made: Object) -> bytes:
    name = made["metadata"]["name"]
    query = {"fieldSelector": f"metadata.name={name}", "resourceVersion": "0"}
    async with aclosing(client.watch(CSR, **query)) as events:
        async for _, obj in events:
            status = obj.get("status") or {}
            for condition in status.get("conditions") or []:
                if condition["type"] in ("Denied", "Failed"):
                    raise JoinRefused(f"{condition['type']}: {condition.get('message', '')}")
            if status.get("certificate"):
                return base64.b64decode(status["certificate"])
    raise JoinRefused("the server ended the watch before it issued the certificate")


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
