"""Certificate signing requests as created by nodes and users."""

from __future__ import annotations

from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from podfit.apiserver.auth.certs.certificates import subject


def new_request(name: str, organizations: Sequence[str], key: ec.EllipticCurvePrivateKey) -> bytes:
    builder = x509.CertificateSigningRequestBuilder(subject(name, organizations))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
