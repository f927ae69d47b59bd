"""Making X.509 certificates: authorities, serving and client certificates, and answers to signing requests.

ECDSA P-256 throughout: keys are made in a fraction of a millisecond, so a first start costs nothing. Nothing here
touches files; `pki` keeps them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_SKEW = timedelta(minutes=5)
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey


class BadRequestPem(ValueError):
    """A signing request that cannot be answered; the message says why."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    cert: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Authority:
    cert: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @staticmethod
    def load(pair: Pair) -> Authority:
        key = serialization.load_pem_private_key(pair.key, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the key of the authority is no elliptic curve key")
        return Authority(x509.load_pem_x509_certificate(pair.cert), key)

    @property
    def pem(self) -> bytes:
        return self.cert.public_bytes(serialization.Encoding.PEM)

    def client(self, name: str, organizations: Sequence[str], ttl: timedelta) -> Pair:
        key = new_key()
        cert = self._sign(subject(name, organizations), key.public_key(), ttl, [CLIENT], ())
        return Pair(_pem(cert), key_pem(key))

    def server(self, name: str, names: Sequence[str], ttl: timedelta, organizations: Sequence[str] = ()) -> Pair:
        """For serving; it works as a client as well, which agents that call each other need."""
        key = new_key()
        cert = self._sign(subject(name, organizations), key.public_key(), ttl, [SERVER, CLIENT], names)
        return Pair(_pem(cert), key_pem(key))

    def answer(
        self, request_pem: bytes, ttl: timedelta, *, usages: Sequence[str] = ("client auth",), names: Sequence[str] = ()
    ) -> bytes:
        """Signs a request with the subject it asks for. Whoever calls has checked that the subject is fine."""
        request = load_request(request_pem)
        extended = [oid for word, oid in (("server auth", SERVER), ("client auth", CLIENT)) if word in usages]
        cert = self._sign(request.subject, _public_key(request), ttl, extended, names)
        return _pem(cert)

    def _sign(
        self,
        name: x509.Name,
        key: PublicKey,
        ttl: timedelta,
        usages: Sequence[x509.ObjectIdentifier],
        names: Sequence[str],
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        until = min(now + ttl, self.cert.not_valid_after_utc)
        builder = (
            x509.CertificateBuilder(self.cert.subject, name, key, x509.random_serial_number(), now - _SKEW, until)
            .add_extension(x509.BasicConstraints(False, None), True)
            .add_extension(_usage(certificates=False), True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), False)
        )
        if usages:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(n) for n in names]), False)
        return builder.sign(self.key, hashes.SHA256())


def new_authority(name: str, ttl: timedelta) -> Pair:
    key = new_key()
    now = datetime.now(UTC)
    who = subject(name)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    cert = (
        x509.CertificateBuilder(who, who, key.public_key(), x509.random_serial_number(), now - _SKEW, now + ttl)
        .add_extension(x509.BasicConstraints(True, None), True)
        .add_extension(_usage(certificates=True), True)
        .add_extension(identifier, False)
        .sign(key, hashes.SHA256())
    )
    return Pair(_pem(cert), key_pem(key))


def new_request(name: str, organizations: Sequence[str], key: ec.EllipticCurvePrivateKey) -> bytes:
    """A signing request, as a node makes one to join."""
    builder = x509.CertificateSigningRequestBuilder(subject(name, organizations))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def load_request(pem: bytes) -> x509.CertificateSigningRequest:
    try:
        request = x509.load_pem_x509_csr(pem)
        good = request.is_signature_valid
    except (ValueError, InvalidSignature) as error:
        raise BadRequestPem(f"PEM block type must be CERTIFICATE REQUEST: {error}") from None
    if not good:
        raise BadRequestPem("the request is not signed with its own key")
    return request


def subject_of_request(pem: bytes) -> tuple[str, tuple[str, ...]]:
    """Common name and organisations a request asks for."""
    name = load_request(pem).subject
    common = [str(part.value) for part in name.get_attributes_for_oid(NameOID.COMMON_NAME)]
    return (common[0] if common else ""), tuple(
        str(part.value) for part in name.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    )


def subject(name: str, organizations: Sequence[str] = ()) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def names_of(cert_pem: bytes) -> set[str]:
    """The names and addresses a certificate is good for."""
    cert = x509.load_pem_x509_certificate(cert_pem)
    try:
        found = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(each.value) for each in found}


def _public_key(request: x509.CertificateSigningRequest) -> PublicKey:
    key = request.public_key()
    if not isinstance(key, (ec.EllipticCurvePublicKey, rsa.RSAPublicKey, ed25519.Ed25519PublicKey)):
        raise BadRequestPem(f"keys of type {type(key).__name__} are not supported")
    return key


def _usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not certificates,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=certificates,
        crl_sign=certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(cert: x509.Certificate) -> bytes:
    return cert.public_bytes(serialization.Encoding.PEM)
