"""Creates X.509 certificates: CAs, serving and client certificates, and signed requests.

All keys are ECDSA P-256, which are generated in a fraction of a millisecond, so a first start is fast. This module does
not access files; `pki` stores the certificates.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from podfit.api.status import go_quote

_SKEW = timedelta(minutes=5)
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey

USAGES: dict[str, str] = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
"""Requested usages that become bits of the certificate's key usage."""
EXTENDED_USAGES = {
    "any": "2.5.29.37.0",
    "server auth": "1.3.6.1.5.5.7.3.1",
    "client auth": "1.3.6.1.5.5.7.3.2",
    "code signing": "1.3.6.1.5.5.7.3.3",
    "email protection": "1.3.6.1.5.5.7.3.4",
    "s/mime": "1.3.6.1.5.5.7.3.4",
    "ipsec end system": "1.3.6.1.5.5.7.3.5",
    "ipsec tunnel": "1.3.6.1.5.5.7.3.6",
    "ipsec user": "1.3.6.1.5.5.7.3.7",
    "timestamping": "1.3.6.1.5.5.7.3.8",
    "ocsp signing": "1.3.6.1.5.5.7.3.9",
    "microsoft sgc": "1.3.6.1.4.1.311.10.3.3",
    "netscape sgc": "2.16.840.1.113730.4.1",
}
_SUBJECT = (
    NameOID.COUNTRY_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.POSTAL_CODE,
)
"""The allowed attributes of a subject in addition to serial number and common name; all others are dropped."""
_NAMES = (x509.DNSName, x509.IPAddress, x509.RFC822Name, x509.UniformResourceIdentifier)


class BadRequestPem(ValueError):
    """A signing request that cannot be signed; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    cert: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Authority:
    cert: x509.Certificate
    key: PrivateKey

    @staticmethod
    def load(pair: Pair) -> Authority:
        key = serialization.load_pem_private_key(pair.key, None)
        if not isinstance(key, PrivateKey):
            raise ValueError(f"keys of type {type(key).__name__} are not supported")
        return Authority(x509.load_pem_x509_certificate(pair.cert), key)

    @property
    def matches(self) -> bool:
        """Whether the key belongs to the certificate."""
        return bool(self.cert.public_key() == self.key.public_key())

    @property
    def pem(self) -> bytes:
        return self.cert.public_bytes(serialization.Encoding.PEM)

    def client(self, name: str, organizations: Sequence[str], ttl: timedelta) -> Pair:
        key = new_key()
        cert = self._sign(subject(name, organizations), key.public_key(), ttl, [CLIENT], ())
        return Pair(_pem(cert), key_pem(key))

    def server(self, name: str, names: Sequence[str], ttl: timedelta, organizations: Sequence[str] = ()) -> Pair:
        """A serving certificate. It is also valid for clients, because agents call each other."""
        key = new_key()
        cert = self._sign(subject(name, organizations), key.public_key(), ttl, [SERVER, CLIENT], names)
        return Pair(_pem(cert), key_pem(key))

    def answer(self, request_pem: bytes, ttl: timedelta, *, usages: Sequence[str] = ("client auth",)) -> bytes:
        """Signs a request. Only its subject and its alternative names are used; callers validate both."""
        request = load_request(request_pem)
        if unknown := [usage for usage in usages if usage not in USAGES and usage not in EXTENDED_USAGES]:
            raise BadRequestPem(f"unrecognized usage values: [{' '.join(map(go_quote, unknown))}]")
        key, extended = _usages(usages)
        names = alternative_names(request)
        name = _plain_subject(request.subject)
        return _pem(self._sign(name, _public_key(request), ttl, extended, names, key))

    def _sign(
        self,
        name: x509.Name,
        key: PublicKey,
        ttl: timedelta,
        usages: Sequence[x509.ObjectIdentifier],
        names: Sequence[str] | Sequence[x509.GeneralName],
        key_usage: x509.KeyUsage | None = None,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        if now >= self.cert.not_valid_after_utc:
            raise ValueError(f"the signer has expired: NotAfter={self.cert.not_valid_after_utc}")
        until = min(now + ttl, self.cert.not_valid_after_utc)
        builder = (
            x509.CertificateBuilder(self.cert.subject, name, key, x509.random_serial_number(), now - _SKEW, until)
            .add_extension(x509.BasicConstraints(False, None), True)
            .add_extension(key_usage or _usage(certificates=False), True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), False)
        )
        if usages:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_alternative(n) for n in names]), False)
        return builder.sign(self.key, None if isinstance(self.key, ed25519.Ed25519PrivateKey) else hashes.SHA256())


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


def load_request(pem: bytes) -> x509.CertificateSigningRequest:
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem:
        raise BadRequestPem("PEM block type must be CERTIFICATE REQUEST")
    try:
        request = x509.load_pem_x509_csr(pem)
        good = request.is_signature_valid
        alternative_names(request)
    except (ValueError, InvalidSignature, UnsupportedAlgorithm, x509.DuplicateExtension) as error:
        raise BadRequestPem(str(error)) from None
    if not good:
        raise BadRequestPem("the request is not signed with its own key")
    return request


def subject_of_request(pem: bytes) -> tuple[str, tuple[str, ...]]:
    """The requested common name and organisations."""
    name = load_request(pem).subject
    common = [str(part.value) for part in name.get_attributes_for_oid(NameOID.COMMON_NAME)]
    return (common[-1] if common else ""), tuple(
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
    """The names and addresses that a certificate is valid for."""
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


def _usages(usages: Sequence[str]) -> tuple[x509.KeyUsage, list[x509.ObjectIdentifier]]:
    bits = {USAGES[usage] for usage in usages if usage in USAGES}
    if "key_agreement" not in bits:
        # These usages qualify key agreement and are meaningless without it.
        bits -= {"encipher_only", "decipher_only"}
    extended = dict.fromkeys(EXTENDED_USAGES[usage] for usage in EXTENDED_USAGES if usage in usages)
    return x509.KeyUsage(**{bit: bit in bits for bit in USAGES.values()}), list(map(x509.ObjectIdentifier, extended))


def _plain_subject(name: x509.Name) -> x509.Name:
    """The usual attributes of a subject. Of several common names only the last is kept, so that all readers of the
    certificate see the name that was checked in the request."""
    parts = [part for oid in _SUBJECT for part in name.get_attributes_for_oid(oid)]
    for oid in (NameOID.COMMON_NAME, NameOID.SERIAL_NUMBER):
        parts += name.get_attributes_for_oid(oid)[-1:]
    return x509.Name(parts)


def alternative_names(request: x509.CertificateSigningRequest) -> list[x509.GeneralName]:
    try:
        found = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [name for name in found if isinstance(name, _NAMES)]


def _alternative(name: str | x509.GeneralName) -> x509.GeneralName:
    if isinstance(name, x509.GeneralName):
        return name
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(cert: x509.Certificate) -> bytes:
    return cert.public_bytes(serialization.Encoding.PEM)
