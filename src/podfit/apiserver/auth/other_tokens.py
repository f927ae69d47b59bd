"""Authenticates bearer tokens that are stored: those in a static file, and bootstrap tokens in Secrets."""

from __future__ import annotations

import base64
import binascii
import csv
import hmac
import io
import re
from pathlib import Path
from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.apiserver.admission.base import Cluster, meta_of
from podfit.apiserver.auth.authenticate import unauthorized
from podfit.apiserver.request import User
from podfit.kit.clock import Clock, RealClock, parse_rfc3339

SECRET = kind_named("Secret")
BOOTSTRAPPERS = "system:bootstrappers"
_BOOTSTRAP = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")


class BadTokenFile(ValueError):
    """A line of the token file is invalid; the message names the line."""


class StaticTokens:
    """The tokens of a file with lines of `token,user,uid[,"group1,group2"]`, which is read once."""

    def __init__(self, users: dict[str, User]) -> None:
        self._users = users

    @staticmethod
    def load(path: Path) -> StaticTokens:
        users = {}
        for number, row in enumerate(csv.reader(io.StringIO(path.read_text())), 1):
            if not row or row[0].lstrip().startswith("#"):
                continue
            if len(row) < 3 or not row[0]:
                raise BadTokenFile(f"{path}:{number}: a line is token,user,uid and optionally groups")
            groups = tuple(g.strip() for g in row[3].split(",") if g.strip()) if len(row) > 3 else ()
            users[row[0].strip()] = User(row[1].strip(), groups, row[2].strip())
        return StaticTokens(users)

    def authenticate_token(self, token: str) -> User | None:
        return self._users.get(token)


class BootstrapTokens:
    """Secrets of type bootstrap.kubernetes.io/token in kube-system: the tokens with which nodes join."""

    def __init__(self, cluster: Cluster, clock: Clock | None = None) -> None:
        self._cluster = cluster
        self._clock = clock or RealClock()

    def authenticate_token(self, token: str) -> User | None:
        match = _BOOTSTRAP.fullmatch(token)
        if match is None:
            return None
        identity, secret = match.groups()
        found = self._cluster.get(SECRET, "kube-system", f"bootstrap-token-{identity}")
        if found is None or not self._is_valid(found, identity, secret):
            raise unauthorized()
        more = (part.strip() for part in _text(found, "auth-extra-groups").split(","))
        groups = tuple(group for group in more if group.startswith(f"{BOOTSTRAPPERS}:"))
        return User(f"system:bootstrap:{identity}", (BOOTSTRAPPERS, *groups))

    def _is_valid(self, found: Object, identity: str, secret: str) -> bool:
        if found.get("type") != "bootstrap.kubernetes.io/token" or meta_of(found).get("deletionTimestamp"):
            return False
        if _text(found, "token-id") != identity or not hmac.compare_digest(_text(found, "token-secret"), secret):
            return False
        if _text(found, "usage-bootstrap-authentication") != "true":
            return False
        expiration = _text(found, "expiration")
        return not expiration or parse_rfc3339(expiration) > self._clock.now()


def _text(secret: Object, key: str) -> str:
    data: dict[str, Any] = secret.get("data") or {}
    try:
        return base64.b64decode(data.get(key) or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
