"""Signs approved certificate signing requests with a cluster's CA, for the controllers.

The controller of each signer checks the content of a request first. This module enforces the limits common to all
signers: no certificate identifies an administrator, or is valid for longer than the signer allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from podfit.apiserver.auth.certs.certificates import Authority, BadRequestPem, Pair, subject_of_request

SIGNING_TTL = timedelta(days=365)
_MASTERS = "system:masters"
_LEAST = timedelta(minutes=10)
_BACKDATED = timedelta(minutes=5)
_SHORT = timedelta(hours=8)
"""Shorter certificates are not backdated: that would cost a noticeable part of their lifetime."""


class SubjectRefused(BadRequestPem):
    """A signing request for an identity that is not allowed."""


class Signer:
    def __init__(self, authority: Authority, ttl: timedelta = SIGNING_TTL) -> None:
        self._authority, self._ttl = authority, ttl

    @staticmethod
    def from_files(cert: Path, key: Path, ttl: timedelta = SIGNING_TTL) -> Signer:
        """Raises OSError or ValueError if the files are not a certificate and its key."""
        authority = Authority.load(Pair(cert.read_bytes(), key.read_bytes()))
        if not authority.matches:
            raise ValueError("the key is not that of the certificate")
        return Signer(authority, ttl)

    def __call__(self, pem: bytes, usages: Sequence[str], lifetime_s: int | None) -> bytes:
        """Returns the signed certificate as PEM."""
        if _MASTERS in subject_of_request(pem)[1]:
            raise SubjectRefused(f"the request asks for {_MASTERS}")
        ttl = self._ttl if lifetime_s is None else min(self._ttl, max(_LEAST, timedelta(seconds=lifetime_s)))
        return self._authority.answer(pem, ttl if ttl < _SHORT else ttl - _BACKDATED, usages=usages)
