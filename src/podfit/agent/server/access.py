"""Authorizes requests to the node: by a client certificate of the cluster's authority, or a token that the API server
accepts.

Certificates of system:masters may do everything; for all others a SubjectAccessReview checks access to the node's
subresource. Results are cached for a while. The health endpoints need no authorization.
"""

from __future__ import annotations

import hashlib
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError
from podfit.client.rest import Client
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock
from podfit.kit.web.routes import Refusal

_TOKEN_REVIEW, _ACCESS_REVIEW = kind_named("TokenReview"), kind_named("SubjectAccessReview")
_TOKEN_S, _ALLOWED_S, _DENIED_S, _MOST = 120.0, 300.0, 30.0, 2000
_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_FINE = {
    "stats": "stats",
    "metrics": "metrics",
    "logs": "log",
    "healthz": "healthz",
    "pods": "pods",
    "runningpods": "pods",
    "configz": "configz",
}


_RUNNING = frozenset(("exec", "attach", "portForward", "run"))
"""These are opened by GET as WebSockets, and are never read-only."""


@dataclass(frozen=True, slots=True)
class Caller:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""


def serving_tls(cert: bytes, key: bytes, client_ca: bytes | None) -> ssl.SSLContext:
    """The TLS settings of the node's socket; clients may present a certificate of `client_ca`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory() as folder:
        # Python's ssl module reads certificates from files only.
        cert_file, key_file = Path(folder, "cert.pem"), Path(folder, "key.pem")
        cert_file.write_bytes(cert)
        key_file.touch(0o600)
        key_file.write_bytes(key)
        context.load_cert_chain(cert_file, key_file)
    if client_ca:
        context.load_verify_locations(cadata=client_ca.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def caller_of(certificate: Mapping[str, Any] | None) -> Caller | None:
    """The caller, from ssl's description of a verified certificate."""
    if not certificate:
        return None
    name, groups = "", []
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == "commonName":
                # The last value counts, as in the API server: the same certificate is the same user everywhere.
                name = value
            elif key == "organizationName":
                groups.append(value)
    return Caller(name, (*groups, "system:authenticated")) if name else None


def subresources(head: str) -> tuple[str, ...]:
    """The subresources that paths below `head` require, the most specific name first; nodes/proxy allows everything."""
    fine = _FINE.get(head)
    return (fine, "proxy") if fine else ("proxy",)


class Gate:
    def __init__(self, client: Client, node: str, clock: Clock) -> None:
        self._client, self._node, self._clock = client, node, clock
        self._tokens: dict[str, tuple[float, Caller | None]] = {}
        self._verdicts: dict[tuple[Caller, str, str], tuple[float, bool]] = {}

    async def check(self, certificate: Mapping[str, Any] | None, authorization: str, method: str, head: str) -> None:
        """Returns if the request is allowed, else raises Refusal (401, 403). `head`: the path's first part, which
        selects the route."""
        caller = caller_of(certificate) or await self._of_token(authorization)
        if caller is None:
            raise Refusal(401, "Unauthorized")
        if "system:masters" in caller.groups:
            return
        names = subresources(head)
        verb = "create" if head in _RUNNING else _VERBS.get(method, method.lower())
        for name in names:
            if await self._allowed(caller, verb, name):
                return
        listed = f"subresource={names[0]}" if len(names) == 1 else f"subresource(s)=[{' '.join(names)}]"
        raise Refusal(403, f"Forbidden (user={caller.name}, verb={verb}, resource=nodes, {listed})")

    async def _of_token(self, authorization: str) -> Caller | None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return None
        key, now = hashlib.sha256(token.encode()).hexdigest(), self._clock.monotonic()
        kept = self._tokens.get(key)
        if kept is not None and kept[0] > now:
            return kept[1]
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token.strip()}}
        status = (await self._ask(_TOKEN_REVIEW, review)).get("status") or {}
        caller: Caller | None = None
        if status.get("authenticated"):
            user = status.get("user") or {}
            caller = Caller(user.get("username") or "", tuple(user.get("groups") or ()), user.get("uid") or "")
        _bound(self._tokens)
        self._tokens[key] = (now + (_TOKEN_S if caller else _DENIED_S), caller)
        return caller

    async def _allowed(self, caller: Caller, verb: str, subresource: str) -> bool:
        key, now = (caller, verb, subresource), self._clock.monotonic()
        kept = self._verdicts.get(key)
        if kept is not None and kept[0] > now:
            return kept[1]
        attributes = {"verb": verb, "version": "v1", "resource": "nodes", "subresource": subresource}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": caller.name,
                "groups": list(caller.groups),
                "uid": caller.uid,
                "resourceAttributes": {**attributes, "name": self._node},
            },
        }
        allowed = bool(((await self._ask(_ACCESS_REVIEW, review)).get("status") or {}).get("allowed"))
        _bound(self._verdicts)
        self._verdicts[key] = (now + (_ALLOWED_S if allowed else _DENIED_S), allowed)
        return allowed

    async def _ask(self, kind: Any, review: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self._client.create(kind, review)
        except (ApiError, Unreachable) as error:
            # An unknown result is not a permission, and is not cached.
            raise Refusal(500, f"Internal error occurred: the API server cannot be reached: {error}") from error


def _bound(kept: dict[Any, Any]) -> None:
    if len(kept) >= _MOST:
        kept.clear()
