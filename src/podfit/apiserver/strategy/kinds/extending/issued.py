"""Checks that the certificate in the status of a CertificateSigningRequest consists of PEM certificates."""

from __future__ import annotations

import base64
import binascii
import re

from cryptography import x509

_BLOCK = re.compile(
    rb"-----BEGIN (?P<type>[^\r\n-]+)-----\s*\n(?P<headers>(?:[^\r\n:]+:[^\r\n]*\r?\n)*)(?P<data>[^-]*)"
    rb"-----END (?P=type)-----"
)


def problem_of(pem: bytes) -> str:
    """What is wrong with the data; "" if all blocks are certificates."""
    blocks = list(_BLOCK.finditer(pem))
    for block in blocks:
        kind = block["type"].decode(errors="replace")
        if kind != "CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{kind}"'
        if block["headers"]:
            return "no PEM block headers are permitted"
        try:
            data = base64.b64decode(b"".join(block["data"].split()), validate=True)
            x509.load_der_x509_certificate(data)
        except (ValueError, binascii.Error):
            return "x509: malformed certificate"
    return "" if blocks else "must contain at least one CERTIFICATE PEM block"
