"""Authenticates requests by client certificate, bearer token or a trusted front proxy, or as anonymous.

`Authenticator.authenticate` returns a user or raises 401. Impersonation is a separate step because it needs
authorization (`impersonate.py`).
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import unquote

from podfit.api.status import ApiError
from podfit.apiserver.auth.certs.pki import FRONT_PROXY_CA, FRONT_PROXY_CLIENT
from podfit.apiserver.request import ANONYMOUS, User
from podfit.kit.clock import Clock, RealClock

AUTHENTICATED = "system:authenticated"
PeerCertificate = Mapping[str, Any]
"""The result of `ssl.SSLSocket.getpeercert()` for a client certificate signed by one of this server's CAs."""
_Name = tuple[tuple[tuple[str, str], ...], ...]


class TokenAuthenticator(Protocol):
    def authenticate_token(self, token: str) -> User | None:
        """Returns the bearer of the token, or None if the token is not of this kind. Raises ApiError if it is
        invalid."""


_IN_PROTOCOL = "base64url.bearer.authorization.k8s.io."


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


class Authenticator:
    def __init__(
        self,
        tokens: Sequence[TokenAuthenticator] = (),
        *,
        anonymous: bool = True,
        proxy_authority: str = FRONT_PROXY_CA,
        proxy_names: Sequence[str] = (FRONT_PROXY_CLIENT,),
        clock: Clock | None = None,
    ) -> None:
        """`proxy_authority`: common name of the CA whose clients, if named in `proxy_names`, may assert other users."""
        self._tokens = tuple(tokens)
        self._anonymous = anonymous
        self._proxy_authority = proxy_authority
        self._proxy_names = frozenset(proxy_names)
        self._clock = clock or RealClock()

    def authenticate(self, headers: Mapping[str, str], peer: PeerCertificate | None = None) -> User:
        """Expects lower-case header names. An invalid credential results in 401, never in an anonymous user."""
        if peer:
            return self._from_certificate(peer, headers)
        token = _bearer(headers.get("authorization", "")) or _socket_bearer(headers)
        if token:
            return self._from_token(token)
        if self._anonymous:
            return ANONYMOUS
        raise unauthorized()

    def _from_certificate(self, peer: PeerCertificate, headers: Mapping[str, str]) -> User:
        user, issuer, starts, ends = _identity(peer["subject"], peer["issuer"], peer["notBefore"], peer["notAfter"])
        if not starts <= self._clock.now() <= ends or not user.name:
            raise unauthorized()
        if issuer == self._proxy_authority:
            # Only API servers have such certificates, with which they assert the users of proxied requests.
            if user.name not in self._proxy_names:
                raise unauthorized()
            return _user_behind_proxy(headers)
        return user

    def _from_token(self, token: str) -> User:
        for source in self._tokens:
            user = source.authenticate_token(token)
            if user is not None:
                return with_authenticated(user)
        raise unauthorized()


def _bearer(credential: str) -> str:
    """The token of an Authorization header; other schemes are ignored."""
    scheme, *words = credential.strip().split(" ", 2)
    return words[0] if words and scheme.lower() == "bearer" else ""


def _socket_bearer(headers: Mapping[str, str]) -> str:
    """The token in the list of subprotocols: browsers cannot set headers on a WebSocket."""
    if _IN_PROTOCOL not in headers.get("sec-websocket-protocol", "") or not _opens_websocket(headers):
        return ""
    words = [word.strip() for word in headers["sec-websocket-protocol"].split(",")]
    tokens = [word.removeprefix(_IN_PROTOCOL) for word in words if word.startswith(_IN_PROTOCOL)]
    if len(tokens) != 1 or len(words) < 2:
        raise unauthorized()
    try:
        return base64.urlsafe_b64decode(tokens[0] + "=" * (-len(tokens[0]) % 4)).decode()
    except ValueError:
        raise unauthorized() from None


def _opens_websocket(headers: Mapping[str, str]) -> bool:
    return "upgrade" in headers.get("connection", "").lower() and headers.get("upgrade", "").lower() == "websocket"


def without_bearer(protocols: str) -> str:
    """The part of a Sec-WebSocket-Protocol header that may be forwarded."""
    return ", ".join(word for word in map(str.strip, protocols.split(",")) if not word.startswith(_IN_PROTOCOL))


@lru_cache(maxsize=4096)
def _identity(subject: _Name, issuer: _Name, starts: str, ends: str) -> tuple[User, str, float, float]:
    """The user in a certificate: its common name and organisations are the name and the groups. Cached: a client sends
    many requests with the same certificate.
    """
    name, groups = _names(subject)
    user = with_authenticated(User(name, groups))
    return user, _names(issuer)[0], ssl.cert_time_to_seconds(starts), ssl.cert_time_to_seconds(ends)


def _names(subject: _Name) -> tuple[str, tuple[str, ...]]:
    name, groups = "", []
    for relative in subject:
        for key, value in relative:
            if key == "commonName":
                name = value
            elif key == "organizationName":
                groups.append(value)
    return name, tuple(groups)


def with_authenticated(user: User) -> User:
    if AUTHENTICATED in user.groups or "system:unauthenticated" in user.groups:
        return user
    return User(user.name, (*user.groups, AUTHENTICATED), user.uid, user.extra)


def _user_behind_proxy(headers: Mapping[str, str]) -> User:
    """The user asserted by an aggregating API server in X-Remote-* headers; repeated headers are joined by newlines."""
    name = headers.get("x-remote-user", "")
    if not name:
        raise unauthorized()
    groups = tuple(group for group in headers.get("x-remote-group", "").split("\n") if group)
    prefix = "x-remote-extra-"
    extra = {
        unquote(key[len(prefix) :]): tuple(value.split("\n"))
        for key, value in headers.items()
        if key.startswith(prefix)
    }
    return with_authenticated(User(name, groups, headers.get("x-remote-uid", ""), extra))
