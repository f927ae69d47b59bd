"""Writes core/v1 Events, counting repeats, without ever blocking the caller.

Similar Events of one object are aggregated and excess ones dropped, as in Kubernetes (`correlate`). Recording only
queues an Event. A few workers send them, one Event at a time each; an object is always assigned to the same worker, so
its Events stay in order, and a slow or unreachable server delays Events but never a reconcile.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from dataclasses import dataclass, field

from msgspec import Struct

from podfit.api.objects import Object
from podfit.api.registry.kinds import EVENT
from podfit.api.status import ApiError
from podfit.client.recording.correlate import Correlator
from podfit.client.rest import Client
from podfit.client.transport import Unreachable
from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock, RealClock, rfc3339

log = logging.getLogger(__name__)

WORKERS = 4
_REMEMBERED = 4096
_QUEUED = 8192

_NAMES = random.Random()
"""A generator of its own: names must differ even if the shared generator is seeded. They need not be unpredictable."""

Key = tuple[object, ...]
"""The identity of an Event: reporting component, object and field, type, reason and message."""


class PendingEvent(Struct):
    component: str
    about: Object
    """The reference to the object that the Event is about."""
    type: str
    reason: str
    message: str
    first_s: float
    last_s: float
    count: int = 1
    related: Object | None = None
    """The reference to another object that is related to it."""


class _Sent(Struct, gc=False):
    namespace: str
    name: str
    count: int


@dataclass(slots=True)
class _Worker:
    waiting: OrderedDict[Key, PendingEvent] = field(default_factory=OrderedDict)
    sent: OrderedDict[Key, _Sent] = field(default_factory=OrderedDict)
    idle: asyncio.Future[None] | None = None
    """The future that the sender waits on while there is nothing to send."""

    async def filled(self) -> None:
        """Waits until there is something to send."""
        if not self.waiting:
            self.idle = asyncio.get_running_loop().create_future()
            try:
                await self.idle
            finally:
                self.idle = None

    def wake(self) -> None:
        if self.idle is not None and not self.idle.done():
            self.idle.set_result(None)


class EventRecorder:
    def __init__(
        self,
        client: Client,
        component: str,
        host: str = "",
        clock: Clock | None = None,
        room: int = _QUEUED,
        correlate: bool = True,
    ) -> None:
        """`room`: the most Events that may be queued. `correlate`: aggregate similar Events and drop excess ones."""
        self._client, self._component, self._host = client, component, host
        self._clock = clock or RealClock()
        self._workers = [_Worker() for _ in range(WORKERS)]
        self._room, self._unsent = room, 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._correlator = Correlator() if correlate else None
        self.dropped = 0
        """Events dropped because the queue was full."""

    def named(self, component: str) -> NamedRecorder:
        """A recorder for another component whose Events use the same queue."""
        return NamedRecorder(self, component)

    def record(
        self,
        about: Object,
        type: str,
        reason: str,
        message: str,
        part: str = "",
        component: str = "",
        at_s: float | None = None,
        related: Object | None = None,
    ) -> None:
        """`about` is the object of the Event, `part` one of its fields; type is Normal or Warning. Returns immediately.

        `at_s` is the time of the event, if it is not now. `related` is another object that is involved.
        """
        meta, message, now = about["metadata"], message[:1024], self._clock.now() if at_s is None else at_s
        component = component or self._component
        place = (about.get("kind", ""), meta.get("namespace", ""), meta["name"], meta.get("uid", ""))
        worker = self._workers[hash(place) % WORKERS]
        who = (component, place)
        key: Key = (who, part, type, reason, message)
        if self._correlator is not None:
            admitted = self._correlator.admit(who, type, reason, message, now)
            if admitted is None:
                return
            if admitted.combined:
                key, message = (who, type, reason), admitted.message[:1024]
        waiting = worker.waiting.get(key)
        if waiting is not None:
            waiting.count += 1
            waiting.last_s, waiting.message = now, message
            return
        if self._unsent >= self._room:
            self._drop(reason, meta["name"])
            return
        made = PendingEvent(component, _reference(about, part), type, reason, message, now, now)
        if related is not None:
            made.related = _reference(related, "")
        worker.waiting[key] = made
        self._unsent += 1
        self._idle.clear()
        worker.wake()

    def _drop(self, reason: str, name: str) -> None:
        self.dropped += 1
        # Logged at the 1st, 2nd, 4th, 8th … occurrence: a flood of Events must not flood the log too.
        if self.dropped & (self.dropped - 1) == 0:
            log.warning("too many Events waiting; dropped %s on %s (%d so far)", reason, name, self.dropped)

    async def run(self) -> None:
        """Sends until cancelled."""
        async with asyncio.TaskGroup() as group:
            for worker in self._workers:
                group.create_task(self._drive(worker))

    async def flush(self) -> None:
        """Waits until everything recorded so far has been sent."""
        await self._idle.wait()

    async def _drive(self, worker: _Worker) -> None:
        while True:
            await worker.filled()
            while worker.waiting:
                # A server in this process may respond without ever yielding: let others run first, Events can wait.
                await asyncio.sleep(0)
                key, event = worker.waiting.popitem(last=False)
                await self._deliver(worker, key, event)
                self._unsent -= 1
                if not self._unsent:
                    self._idle.set()

    async def _deliver(self, worker: _Worker, key: Key, event: PendingEvent) -> None:
        backoff: Backoff | None = None
        while True:
            try:
                await self._send(worker, key, event)
            except Unreachable:
                backoff = backoff or Backoff(0.1, 10.0)
                await self._clock.sleep(backoff.next())
                continue
            except ApiError as error:
                log.debug("Event %s refused: %s", event.reason, error)
            return

    async def _send(self, worker: _Worker, key: Key, event: PendingEvent) -> None:
        sent = worker.sent.get(key)
        if sent is not None:
            worker.sent.move_to_end(key)
            try:
                change = self._repeated(event, sent.count + event.count)
                await self._client.patch(EVENT, sent.namespace, sent.name, change)
                sent.count += event.count
                return
            except ApiError as error:
                if error.code != 404:
                    raise
        body = self._body(event)
        await self._client.create(EVENT, body)
        meta = body["metadata"]
        worker.sent[key] = _Sent(meta["namespace"], meta["name"], event.count)
        if len(worker.sent) > _REMEMBERED // WORKERS:
            worker.sent.popitem(last=False)

    def _repeated(self, event: PendingEvent, count: int) -> Object:
        """The update of an Event that was sent before."""
        return {"count": count, "lastTimestamp": rfc3339(event.last_s), "message": event.message}

    def _body(self, event: PendingEvent) -> Object:
        about = event.about
        return {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {
                "name": f"{about['name'][:235]}.{_NAMES.getrandbits(64):016x}",
                "namespace": about.get("namespace") or "default",
            },
            "involvedObject": about,
            "reason": event.reason,
            "message": event.message,
            "source": {"component": event.component, **({"host": self._host} if self._host else {})},
            "firstTimestamp": rfc3339(event.first_s),
            "lastTimestamp": rfc3339(event.last_s),
            "count": event.count,
            "type": event.type,
            "reportingComponent": event.component,
            "reportingInstance": self._host,
        }


class NamedRecorder:
    """An EventRecorder with a different component name."""

    def __init__(self, recorder: EventRecorder, component: str) -> None:
        self._recorder, self._component = recorder, component

    def named(self, component: str) -> NamedRecorder:
        return NamedRecorder(self._recorder, component)

    def record(self, about: Object, type: str, reason: str, message: str, part: str = "") -> None:
        self._recorder.record(about, type, reason, message, part, self._component)


def _reference(about: Object, part: str) -> Object:
    """A reference to an object, with only fields that are set, in the order in which Kubernetes writes them."""
    meta = about["metadata"]
    reference = {
        "kind": about.get("kind", ""),
        "namespace": meta.get("namespace", ""),
        "name": meta["name"],
        "uid": meta.get("uid", ""),
        "apiVersion": about.get("apiVersion", ""),
        "resourceVersion": meta.get("resourceVersion", ""),
        "fieldPath": part,
    }
    return {key: value for key, value in reference.items() if value}
