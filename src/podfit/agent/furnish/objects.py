"""ConfigMaps, Secrets and tokens that pods refer to, fetched when needed and remembered for a moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from podfit.api.kinds import Kind, kind_named
from podfit.api.status import ApiError, Object
from podfit.client.rest import Client
from podfit.kit.clock import Clock, parse_rfc3339

CONFIG_MAP, SECRET, SERVICE_ACCOUNT = kind_named("ConfigMap"), kind_named("Secret"), kind_named("ServiceAccount")
_FRESH_S = 10.0


class MissingObject(Exception):
    """A pod refers to something that is not there; the message is Kubernetes'."""


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    expires: float
    refresh_at: float


class Objects:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._kept: dict[tuple[str, str, str], tuple[float, Object | None]] = {}

    async def config_map(self, namespace: str, name: str) -> Object | None:
        return await self._get(CONFIG_MAP, namespace, name)

    async def secret(self, namespace: str, name: str) -> Object | None:
        return await self._get(SECRET, namespace, name)

    async def _get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        key = (kind.kind, namespace, name)
        kept = self._kept.get(key)
        now = self._clock.monotonic()
        if kept is not None and now - kept[0] < _FRESH_S and kept[1] is not None:
            return kept[1]
        found = await self._client.find(kind, namespace, name)
        if len(self._kept) > 1000:
            self._kept.clear()
        self._kept[key] = (now, found)
        return found

    async def token(self, namespace: str, account: str, pod: Object, source: Object) -> Token:
        """A token for the pod's service account, bound to the pod."""
        meta = pod["metadata"]
        seconds = int(source.get("expirationSeconds") or 3600)
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
        return Token(status["token"], expires, now + 0.8 * (expires - now))
