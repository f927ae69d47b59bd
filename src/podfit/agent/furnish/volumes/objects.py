"""Reads ConfigMaps, Secrets and tokens that pods refer to: watched while mounted, else fetched and cached briefly.

Tokens are kept until they are due for renewal; nothing here outlives its pod.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

from podfit.agent.furnish.volumes.followed import Followed
from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind, kind_named
from podfit.api.status import ApiError
from podfit.client.rest import Client
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock, parse_rfc3339

log = logging.getLogger(__name__)

CONFIG_MAP, SECRET, SERVICE_ACCOUNT = kind_named("ConfigMap"), kind_named("Secret"), kind_named("ServiceAccount")
_FRESH_S = 10.0
_TOKEN_RETRY_S = 60.0
_TOKEN_AGE_S = 86_400.0
"""Tokens are renewed after a day, however long they are valid."""


class MissingObject(Exception):
    """A pod refers to an object that does not exist; the message is Kubernetes'."""


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    expires: float
    refresh_at: float


class ReferencedObjects:
    def __init__(self, client: Client, clock: Clock, followed: Followed) -> None:
        self._client, self._clock, self.followed = client, clock, followed
        self._kept: dict[tuple[str, str, str], tuple[float, Object | None]] = {}
        self._tokens: dict[str, dict[tuple[str, str, int], Token]] = {}

    async def config_map(self, namespace: str, name: str) -> Object | None:
        return await self._get(CONFIG_MAP, namespace, name)

    async def secret(self, namespace: str, name: str) -> Object | None:
        return await self._get(SECRET, namespace, name)

    async def _get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        key = (kind.kind, namespace, name)
        known, current = self.followed.current(key)
        if known:
            return current
        kept = self._kept.get(key)
        now = self._clock.monotonic()
        if kept is not None and now - kept[0] < _FRESH_S and kept[1] is not None:
            self.followed.was_read(key, kept[1])
            return kept[1]
        found = await self._client.find(kind, namespace, name)
        self.followed.was_read(key, found)
        if len(self._kept) > 1000:
            self._kept.clear()
        self._kept[key] = (now, found)
        return found

    def release(self, uid: str) -> None:
        """Called when the pod is gone."""
        self.followed.use(uid, ())
        self._tokens.pop(uid, None)

    # --- tokens
    def renewal_s(self, uid: str) -> float | None:
        """The seconds until the first of the pod's tokens is due; None without tokens."""
        due = [token.refresh_at for token in self._tokens.get(uid, {}).values()]
        return max(0.0, min(due) - self._clock.now()) if due else None

    async def token(self, namespace: str, account: str, pod: Object, source: Object) -> Token:
        """A token for the pod's service account, bound to the pod; cached until it is due for renewal."""
        seconds = int(source.get("expirationSeconds") or 3600)
        key = (account, str(source.get("audience") or ""), seconds)
        kept = self._tokens.setdefault(pod["metadata"]["uid"], {})
        last, now = kept.get(key), self._clock.now()
        if last is not None and now < last.refresh_at:
            return last
        try:
            kept[key] = await self._new_token(namespace, account, pod, source, seconds)
        except (MissingObject, Unreachable) as error:
            if last is None or now >= last.expires:
                raise
            log.warning("token of %s/%s not renewed yet: %s", namespace, pod["metadata"]["name"], error)
            kept[key] = replace(last, refresh_at=min(now + _TOKEN_RETRY_S, last.expires))
        return kept[key]

    async def _new_token(self, namespace: str, account: str, pod: Object, source: Object, seconds: int) -> Token:
        meta = pod["metadata"]
        ask: dict[str, Any] = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [source["audience"]] if source.get("audience") else [],
                "expirationSeconds": seconds,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]},
            },
        }
        try:
            answer = await self._client.create(SERVICE_ACCOUNT, ask, namespace, account, "token")
        except ApiError as error:
            raise MissingObject(f"failed to fetch token: {error}") from error
        status = answer["status"]
        now = self._clock.now()
        expires = parse_rfc3339(status["expirationTimestamp"]) if status.get("expirationTimestamp") else now + seconds
        return Token(status["token"], expires, now + min(0.8 * (expires - now), _TOKEN_AGE_S))
