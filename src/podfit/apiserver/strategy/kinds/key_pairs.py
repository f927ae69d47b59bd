"""Checks the certificate and the key of a TLS Secret. An invalid pair is stored, and the client gets a warning."""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_private_key

_BLOCK = re.compile(rb"-----BEGIN ([^\n]*?)-----\s*\n(.*?)\n?-----END \1-----", re.DOTALL)
_SKIPPED = "input after skipping PEM blocks of the following types: [{}]"


@lru_cache(64)
def key_pair_problem(certificate: str, key: str) -> str:
    """What is wrong with a pair, given in base64 as in a Secret; "" for a valid pair."""
    chain, others = _blocks(certificate, "CERTIFICATE")
    if not chain:
        if not others:
            return "tls: failed to find any PEM data in certificate input"
        if len(others) == 1 and others[0].endswith("PRIVATE KEY"):
            return (
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; "
                "PEM inputs may have been switched"
            )
        return 'tls: failed to find "CERTIFICATE" PEM block in certificate ' + _SKIPPED.format(" ".join(others))
    keys, others = _blocks(key, "PRIVATE KEY")
    if not keys:
        if not others:
            return "tls: failed to find any PEM data in key input"
        if others == ["CERTIFICATE"]:
            return "tls: found a certificate rather than a key in the PEM for the private key"
        return 'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key ' + _SKIPPED.format(
            " ".join(others)
        )
    return _mismatch(chain[0], keys[0])


def _mismatch(certificate: bytes, key: bytes) -> str:
    try:
        public = x509.load_der_x509_certificate(certificate).public_key()
    except (ValueError, UnsupportedAlgorithm):
        return "x509: malformed certificate"
    try:
        private = load_der_private_key(key, None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "tls: failed to parse private key"
    if type(public) is not type(private):
        return "tls: private key type does not match public key type"
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    return (
        ""
        if public.public_bytes(*form) == private.public_bytes(*form)
        else ("tls: private key does not match public key")
    )


def _blocks(text: str, wanted: str) -> tuple[list[bytes], list[str]]:
    """The contents of the blocks of the given type, and the types of the blocks before the first of these."""
    found: list[bytes] = []
    others: list[str] = []
    for kind, body in _BLOCK.findall(base64.b64decode(text)):
        # Headers, as of an encrypted key, end with an empty line.
        _, _, content_text = body.rpartition(b"\n\n")
        try:
            content = base64.b64decode(b"".join(content_text.split()), validate=True)
        except binascii.Error:
            continue
        name = kind.decode("utf-8", "replace")
        if name == wanted or (wanted == "PRIVATE KEY" and name.endswith(" PRIVATE KEY")):
            found.append(content)
        elif not found:
            others.append(name)
    return found, others
