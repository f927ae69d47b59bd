"""The admission webhook's certificates: read from files, or self-issued, renewed in time and shared through a Secret.

All replicas use one authority: the first replica creates it and the others read it. When the authority is renewed, the
old one stays in the bundle until its last certificate has expired.
"""

from __future__ import annotations

import base64
import ipaddress
import logging
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError
from podfit.client import Client

log = logging.getLogger(__name__)

SECRET = kind_named("Secret")
CA_DAYS, CA_RENEW_DAYS = 3650, 400
_FILES = ("caCert.pem", "caKey.pem", "serverCert.pem", "serverKey.pem")
_SKEW = timedelta(minutes=10)
Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM texts. `ca` may contain several authorities; without `ca_key` they came from files and cannot be renewed
    here."""

    ca: bytes
    cert: bytes
    key: bytes
    ca_key: bytes = b""

    def renewal_due(self, now: float, names: Sequence[str]) -> bool:
        """Whether the certificate is in the last third of its lifetime, or lacks one of the names."""
        found = x509.load_pem_x509_certificate(self.cert)
        begin, end = found.not_valid_before_utc, found.not_valid_after_utc
        late = datetime.fromtimestamp(now, UTC) >= begin + (end - begin) * 2 / 3
        return late or not set(names) <= set(_names_of(found)) or self.authority_due(now)

    def authority_due(self, now: float) -> bool:
        newest = x509.load_pem_x509_certificates(self.ca)[0]
        return datetime.fromtimestamp(now, UTC) >= newest.not_valid_after_utc - timedelta(days=CA_RENEW_DAYS)


def from_files(ca: str, cert: str, key: str) -> Certificates | None:
    """Reads the certificates; None if a file does not exist."""
    if not all(Path(file).is_file() for file in (ca, cert, key)):
        return None
    return Certificates(Path(ca).read_bytes(), Path(cert).read_bytes(), Path(key).read_bytes())


def made(names: Sequence[str], now: float, lifetime_s: float, before: Certificates | None = None) -> Certificates:
    """Issues a new serving certificate, signed by the same authority while that is valid."""
    bundle, ca_key = (before.ca, before.ca_key) if before is not None else (b"", b"")
    if before is None or not ca_key or before.authority_due(now):
        fresh, ca_key = _authority(now)
        bundle = fresh + bundle
    cert, key = _serving(names, now, lifetime_s, x509.load_pem_x509_certificates(bundle)[0], ca_key)
    return Certificates(bundle, cert, key, ca_key)


def _authority(now: float) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "vpa_webhook_ca")])
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    builder = (
        _builder(name, name, key, now, CA_DAYS * 86400.0)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), _pem(key)


def _serving(
    names: Sequence[str], now: float, lifetime_s: float, authority: x509.Certificate, ca_key: bytes
) -> tuple[bytes, bytes]:
    signer = serialization.load_pem_private_key(ca_key, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    alternatives: list[x509.GeneralName] = [_general(name) for name in names]
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = (
        _builder(subject, authority.subject, key, now, lifetime_s)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
    )
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), _pem(key)


def _builder(subject: x509.Name, issuer: x509.Name, key: Key, now: float, lifetime_s: float) -> x509.CertificateBuilder:
    begin = datetime.fromtimestamp(now, UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - _SKEW)
        .not_valid_after(begin + timedelta(seconds=lifetime_s))
    )


def _pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names_of(certificate: x509.Certificate) -> list[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))]


class SharedCertificates:
    """Certificates stored in a Secret, so that all replicas use the same authority."""

    def __init__(self, client: Client, namespace: str, name: str, names: Sequence[str], lifetime_s: float) -> None:
        self._client, self._namespace, self._name = client, namespace, name
        self._names, self._lifetime_s = tuple(names), lifetime_s

    async def current(self, now: float) -> Certificates:
        """The certificates in the Secret, renewed if due. Replicas that renew at the same time all return the same
        result."""
        for _ in range(5):
            secret = await self._client.find(SECRET, self._namespace, self._name)
            kept = _read(secret)
            if kept is not None and not kept.renewal_due(now, self._names):
                return kept
            fresh = made(self._names, now, self._lifetime_s, kept)
            try:
                await self._write(secret, fresh)
                return fresh
            except ApiError as error:
                if error.code != 409:
                    raise
        raise ApiError(409, "Conflict", f"secret {self._name}: others write it all the time")

    async def _write(self, secret: Object | None, fresh: Certificates) -> None:
        texts = (fresh.ca, fresh.ca_key, fresh.cert, fresh.key)
        data = {file: base64.b64encode(text).decode() for file, text in zip(_FILES, texts, strict=True)}
        if secret is None:
            meta = {"name": self._name, "namespace": self._namespace}
            await self._client.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})
        else:
            await self._client.update(SECRET, {**secret, "data": {**(secret.get("data") or {}), **data}})


def _read(secret: Object | None) -> Certificates | None:
    data = (secret or {}).get("data") or {}
    if not all(data.get(file) for file in _FILES):
        return None
    try:
        ca, ca_key, cert, key = (base64.b64decode(data[file]) for file in _FILES)
        x509.load_pem_x509_certificate(cert)
        x509.load_pem_x509_certificates(ca)
        return Certificates(ca, cert, key, ca_key)
    except ValueError as error:
        log.warning("the Secret with the webhook's certificates cannot be read: %s", error)
        return None


def load_chain(context: ssl.SSLContext, certificates: Certificates) -> None:
    """Loads certificates into a TLS context. A context only reads files, so they are written to temporary ones."""
    with tempfile.TemporaryDirectory() as folder:
        cert, key = Path(folder) / "cert.pem", Path(folder) / "key.pem"
        cert.write_bytes(certificates.cert)
        key.touch(mode=0o600)
        key.write_bytes(certificates.key)
        context.load_cert_chain(cert, key)
