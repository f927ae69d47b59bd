"""Writes core/v1 Events, counting repeats instead of repeating them, without ever holding up who reports.

Recording is a queue and a task: a slow or absent server delays Events, never a reconcile.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from dataclasses import dataclass

from podfit.api.kinds import EVENT
from podfit.api.status import ApiError, Object
from podfit.client.rest import Client
from podfit.client.transport import Unreachable
from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock, RealClock, rfc3339

log = logging.getLogger(__name__)

_REMEMBERED = 4096
_QUEUED = 8192


@dataclass
class _Seen:
    namespace: str
    name: str
    count: int


class EventRecorder:
    def __init__(self, client: Client, component: str, host: str = "", clock: Clock | None = None) -> None:
        self._client, self._component, self._host = client, component, host
        self._clock = clock or RealClock()
        self._queue: asyncio.Queue[Object] = asyncio.Queue(_QUEUED)
        self._seen: OrderedDict[tuple[str, ...], _Seen] = OrderedDict()

    def record(self, about: Object, type: str, reason: str, message: str) -> None:
        """`about` is the object the Event is on; type Normal or Warning. Returns at once."""
        meta = about["metadata"]
        ref = {
            "kind": about.get("kind", ""),
            "namespace": meta.get("namespace", ""),
            "name": meta["name"],
            "uid": meta.get("uid", ""),
            "apiVersion": about.get("apiVersion", ""),
            "resourceVersion": meta.get("resourceVersion", ""),
        }
        now = rfc3339(self._clock.now())
        event: Object = {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {
                "name": f"{meta['name'][:235]}.{secrets.token_hex(8)}",
                "namespace": meta.get("namespace") or "default",
            },
            "involvedObject": {key: value for key, value in ref.items() if value},
            "reason": reason,
            "message": message[:1024],
            "source": {"component": self._component, **({"host": self._host} if self._host else {})},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": type,
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            log.warning("too many Events waiting; dropped %s on %s", reason, meta["name"])

    async def run(self) -> None:
        """Sends until cancelled."""
        backoff = Backoff(0.1, 10.0)
        while True:
            event = await self._queue.get()
            while True:
                try:
                    await self._send(event)
                    backoff.forget()
                except Unreachable:
                    await self._clock.sleep(backoff.next())
                    continue
                except ApiError as error:
                    log.debug("Event %s refused: %s", event["reason"], error)
                break
            self._queue.task_done()

    async def flush(self) -> None:
        """Waits until everything recorded so far was sent."""
        await self._queue.join()

    async def _send(self, event: Object) -> None:
        ref = event["involvedObject"]
        key = (
            ref.get("kind", ""),
            ref.get("namespace", ""),
            ref["name"],
            ref.get("uid", ""),
            event["reason"],
            event["message"],
        )
        seen = self._seen.get(key)
        if seen is not None:
            self._seen.move_to_end(key)
            change = {"count": seen.count + 1, "lastTimestamp": event["lastTimestamp"]}
            try:
                await self._client.patch(EVENT, seen.namespace, seen.name, change)
                seen.count += 1
                return
            except ApiError as error:
                if error.code != 404:
                    raise
        meta = event["metadata"]
        await self._client.create(EVENT, event)
        self._seen[key] = _Seen(meta["namespace"], meta["name"], 1)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
