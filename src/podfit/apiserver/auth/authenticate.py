"""Who asks: client certificate, bearer token, a trusted front proxy, or nobody.

`Authenticator.authenticate` answers with a user or raises the 401. Impersonation is a separate step because it needs
authorization (`impersonate.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from podfit.api.status import ApiError
from podfit.apiserver.request import ANONYMOUS, User

AUTHENTICATED = "system:authenticated"
PeerCertificate = Mapping[str, Any]
"""What `ssl.SSLSocket.getpeercert()` returns for a verified client."""


class TokenAuthenticator(Protocol):
    def authenticate_token(self, token: str) -> User | None:
        """The bearer of the token, None when the token is not one of this kind; ApiError when it is a bad one."""


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


class Authenticator:
    def __init__(
        self,
        tokens: Sequence[TokenAuthenticator] = (),
        *,
        anonymous: bool = True,
        proxy_names: Sequence[str] = ("front-proxy-client",),
    ) -> None:
        self._tokens = tuple(tokens)
        self._anonymous = anonymous
        self._proxy_names = frozenset(proxy_names)

    def authenticate(self, headers: Mapping[str, str], peer: PeerCertificate | None = None) -> User:
        """Headers have lower-case keys. A credential that is given but bad is a 401, never an anonymous user."""
        if peer:
            return self._from_certificate(peer, headers)
        credential = headers.get("authorization")
        if credential is not None:
            return self._from_token(credential)
        if self._anonymous:
            return ANONYMOUS
        raise unauthorized()

    def _from_certificate(self, peer: PeerCertificate, headers: Mapping[str, str]) -> User:
        name, groups = subject_of(peer)
        if not name:
            raise unauthorized()
        if name in self._proxy_names:
            return _user_behind_proxy(headers)
        return with_authenticated(User(name, groups))

    def _from_token(self, credential: str) -> User:
        scheme, _, token = credential.strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise unauthorized()
        for source in self._tokens:
            user = source.authenticate_token(token)
            if user is not None:
                return with_authenticated(user)
        raise unauthorized()


def subject_of(peer: PeerCertificate) -> tuple[str, tuple[str, ...]]:
    """Common name and organisations of a verified client certificate."""
    name, groups = "", []
    for relative in peer.get("subject", ()):
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
    """The user an aggregating API server vouches for, in X-Remote-* headers."""
    name = headers.get("x-remote-user", "")
    if not name:
        raise unauthorized()
    groups = tuple(part.strip() for part in headers.get("x-remote-group", "").split(",") if part.strip())
    prefix = "x-remote-extra-"
    extra = {key[len(prefix) :]: (value,) for key, value in headers.items() if key.startswith(prefix)}
    return with_authenticated(User(name, groups, headers.get("x-remote-uid", ""), extra))
