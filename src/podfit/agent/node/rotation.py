"""Renews a running node's certificates before they expire, with requests in its own name.

The client certificate is the node's identity at the API server. The serving certificate is used by the node's own
server; until one is signed, it uses a self-signed one, as kubelets do.
"""

from __future__ import annotations

import ipaddress
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from podfit.agent.decide.node.renewal import renew_at
from podfit.agent.node.join import JoinRefused, issued
from podfit.api.status import ApiError
from podfit.client.rest import Client
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock

log = logging.getLogger(__name__)
_PAUSE_S, _PAUSE_MOST_S = 10.0, 600.0
Keep = Callable[[bytes, bytes], None]
"""Called with certificate and key as PEM; they are used from then on."""


@dataclass(frozen=True)
class Purpose:
    what: str
    signer: str
    usages: tuple[str, ...]


CLIENT = Purpose(
    "client certificate", "kubernetes.io/kube-apiserver-client-kubelet", ("digital signature", "client auth")
)
SERVING = Purpose("serving certificate", "kubernetes.io/kubelet-serving", ("digital signature", "server auth"))


def request_for(node: str, key: ec.EllipticCurvePrivateKey, names: Sequence[str] = ()) -> bytes:
    """`names`: host names and addresses in the certificate."""
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
        ]
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


class Rotation:
    """Keeps one certificate of a node valid."""

    def __init__(
        self, client: Client, node: str, purpose: Purpose, keep: Keep, clock: Clock, names: Sequence[str] = ()
    ) -> None:
        self._client, self._node, self._purpose = client, node, purpose
        self._keep, self._clock, self._names = keep, clock, names
        # The share decides only when a node renews, so it need not be secret.
        self._share = random.random()

    async def run(self, current: bytes | None) -> None:
        """`current`: the certificate in use; None if there is none yet."""
        while True:
            if current is not None:
                await self._clock.sleep(max(0.0, self._due(current) - self._clock.now()))
            current = await self._renewed()

    def _due(self, pem: bytes) -> float:
        certificate = x509.load_pem_x509_certificate(pem)
        begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        return renew_at(begins, ends, self._share).timestamp()

    async def _renewed(self) -> bytes:
        pause = _PAUSE_S
        while True:
            key = ec.generate_private_key(ec.SECP256R1())
            request = request_for(self._node, key, self._names)
            try:
                cert = await issued(self._client, self._node, request, self._purpose.signer, self._purpose.usages)
            except (JoinRefused, ApiError, Unreachable) as error:
                log.warning("the %s of node %s is not renewed: %s", self._purpose.what, self._node, error)
                await self._clock.sleep(pause)
                pause = min(pause * 2, _PAUSE_MOST_S)
                continue
            form = serialization.PrivateFormat.PKCS8
            pem = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
            self._keep(cert, pem)
            ends = x509.load_pem_x509_certificate(cert).not_valid_after_utc.astimezone(UTC)
            log.info("node %s has a new %s, good until %s", self._node, self._purpose.what, _day(ends))
            return cert


def _day(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}Z"
