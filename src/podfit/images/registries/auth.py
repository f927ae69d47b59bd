"""Registry authentication: challenges in WWW-Authenticate, and the responses to them."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable

from msgspec import Struct

from podfit.images.registries.credentials import Credentials

_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9_-]*)\s+")
_PARAMETER = re.compile(r'\s*([A-Za-z][A-Za-z0-9_-]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))\s*,?')


class Challenge(Struct, frozen=True):
    scheme: str
    """Lower case: bearer, basic."""
    parameters: dict[str, str]


def challenges(headers: Iterable[str]) -> list[Challenge]:
    """All challenges of a response, in order. Malformed ones are skipped."""
    found = []
    for header in headers:
        at = 0
        while (scheme := _SCHEME.match(header, at)) is not None:
            at, parameters = scheme.end(), {}
            while (match := _PARAMETER.match(header, at)) is not None:
                parameters[match[1].lower()] = match[3] if match[2] is None else re.sub(r"\\(.)", r"\1", match[2])
                at = match.end()
            found.append(Challenge(scheme[1].lower(), parameters))
        if not found and header.strip():
            found.append(Challenge(header.split()[0].lower(), {}))
    return found


def basic(credentials: Credentials) -> str:
    plain = f"{credentials.username}:{credentials.password}".encode()
    return f"Basic {base64.b64encode(plain).decode()}"
