"""The hub reads the store's log and distributes every change to the server's listeners and to watchers.

It is the only reader of the log. A receiver that fails does not affect the others: a listener is resynchronised with
the store, a watcher has to list again. The hub ends only with the server; `problem` is part of the server's health.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from podfit.apiserver.storage.events import PREFIX, Watcher, WatcherIndex, WatchEvent
from podfit.apiserver.storage.object_cache import DecodedObjects
from podfit.kit.concurrency.tasks import Tasks
from podfit.store.backend import Change, Compacted, Lagging, Store, Watch

log = logging.getLogger(__name__)
IN_A_ROW = 32
"""Changes dispatched before other tasks get a turn."""
TURNS_OF_AN_ANSWER = 3
"""Iterations of the event loop from the end of a write to the sending of its response: its task ends, the front end's
task is woken, and writes to the connection."""
TURNS_OF_A_NODE = 10
"""Iterations in which a node's agent decides a resize, persists the allocation and writes the cgroup, before watchers
that follow everything receive the change, if there is a watcher of that node or object."""
RESTART_S = 0.1
LONGEST_RESTART_S = 60.0
"""Delays before a failed receiver is resynchronised."""

Listener = Callable[[WatchEvent], None]
Resync = Callable[[], Awaitable[None]]
"""Brings a listener to the state of the store, regardless of the changes that it has received."""


@dataclass(slots=True, eq=False)
class _Listening:
    name: str
    listener: Listener
    resources: frozenset[str]
    resync: Resync | None
    behind: bool = False
    """Whether the listener failed on a change and has not been resynchronised since."""


@dataclass(slots=True)
class _Arrived:
    """Changes that listeners have received and watchers have not."""

    events: dict[str, list[WatchEvent]] = field(default_factory=dict)
    """By resource, in order."""
    count: int = 0
    revision: int = 0
    """The revision of the last change."""


class Iterations:
    """An awaitable that lets other tasks run for `count` iterations of the event loop."""

    __slots__ = ("_count",)

    def __init__(self, count: int) -> None:
        self._count = count

    def __await__(self) -> Any:
        return repeat(None, self._count)


class Hub:
    """Distributes changes to listeners and watchers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._indexes: dict[str, WatcherIndex] = {}
        """By resource."""
        self._tasks = Tasks("watch hub")
        self._listeners: list[_Listening] = []
        self._listening: dict[str, tuple[_Listening, ...]] = {}
        """By resource."""
        self._running: list[asyncio.Task[None]] = []
        self._arrived, self._arrival = _Arrived(), asyncio.Event()
        self.seen = 0
        self.decoded = DecodedObjects()
        """The source of the objects of changes, whole and stripped."""

    def start(self) -> None:
        self.seen = self._store.revision
        self._running = [self._tasks.start(self._distribute(), "watchers"), self._tasks.start(self._run(), "log")]

    async def stop(self) -> None:
        await self._tasks.stop()
        for watcher in list(self.watchers()):
            watcher.close()

    def watchers(self) -> Iterator[Watcher]:
        for index in self._indexes.values():
            yield from index

    def followers(self, resource: str, namespace: str, name: str) -> int:
        """The number of watches that may get a change of this object, without those of single nodes."""
        index = self._indexes.get(resource)
        return 0 if index is None else index.followers(namespace, name)

    def problem(self) -> str:
        """Why watchers do not get events; "" if they do."""
        if not self._running or any(task.done() for task in self._running):
            return "the watch hub is not running"
        return ""

    def listen(self, name: str, listener: Listener, *resources: str, resync: Resync | None = None) -> None:
        """`listener(event)` is called for every change of these resources (of all, if none is given), in order; it must
        be fast. If it raises, it misses that change, and `resync` is called soon after."""
        self._listeners.append(_Listening(name, listener, frozenset(resources), resync))
        self._listening.clear()

    def add(self, watcher: Watcher) -> None:
        self._indexes.setdefault(watcher.resource, WatcherIndex()).add(watcher)

    def remove(self, watcher: Watcher) -> None:
        watcher.end()
        index = self._indexes.get(watcher.resource)
        if index is not None:
            index.remove(watcher)

    async def _run(self) -> None:
        while True:
            try:
                watch = self._store.watch(PREFIX, self.seen, buffer=65536)
            except Compacted:
                self._cut_off_all()
                continue
            try:
                await self._follow(watch)
            except (Lagging, StopAsyncIteration):
                self._cut_off_all()
            except Exception:
                log.exception("the watch hub failed and begins again")
                self._cut_off_all()
                await asyncio.sleep(RESTART_S)
            finally:
                watch.close()

    async def _follow(self, watch: Watch) -> None:
        """Passes changes to the server's listeners before any watcher, so that a role or a definition is in force when
        its writer gets the response. Listeners do not wait for the watchers of earlier changes."""
        while True:
            self._inform_listeners(await watch.next())
            self._arrival.set()
            while self._arrived.count >= IN_A_ROW:
                await Iterations(1)

    async def _distribute(self) -> None:
        """Distributes changes to watchers. They arrive in groups of hundreds, and components of this process handle
        them synchronously.

        The response to a write is sent before those components handle the change. Watchers of one node or object come
        first; watchers of everything follow once the node has had time to act.
        """
        while True:
            is_behind = self._arrived.count > 0
            await self._arrival.wait()
            group = self._take_arrived()
            if not is_behind:
                await Iterations(TURNS_OF_AN_ANSWER - 1)  # One iteration has passed: this task was woken.
            try:
                indexes = [(self._indexes.get(resource), events) for resource, events in group.events.items()]
                acting = [index.offer_to_filed(events) for index, events in indexes if index is not None]
                await Iterations(TURNS_OF_A_NODE if any(acting) and not is_behind else 1)
                for index, events in indexes:
                    # Each watcher gets the changes of a resource in order; the order of resources is undefined.
                    if index is not None:
                        index.offer_to_all(events)
            except Exception:
                log.exception("changes cannot be distributed to watchers")
                self._cut_off_all()
            self.seen = max(self.seen, group.revision)

    def _take_arrived(self) -> _Arrived:
        taken, self._arrived = self._arrived, _Arrived()
        self._arrival.clear()
        return taken

    def _cut_off_all(self) -> None:
        """Cuts off all watchers, because the position in the log was lost: each has to list again."""
        log.warning("the watch on the store was interrupted; cutting off all watchers")
        for watcher in self.watchers():
            watcher.lagging = True
            watcher.close()
        self._take_arrived()
        self.seen = self._store.revision

    def _inform_listeners(self, change: Change) -> None:
        arrived = self._arrived
        arrived.count += 1
        arrived.revision = change.revision
        try:
            event = WatchEvent(change, self.decoded.of, self.decoded.strip)
        except ValueError:
            log.warning("the store has a key that names no object: %s", change.key)
            return
        resource = event.resource
        listening = self._listening.get(resource)
        if listening is None:
            listening = self._listening[resource] = self._listening_to(resource)
        for registered in listening:
            try:
                registered.listener(event)
            except Exception:
                self._fell_behind(registered, change)
        arrived.events.setdefault(resource, []).append(event)

    def _listening_to(self, resource: str) -> tuple[_Listening, ...]:
        return tuple(
            listener for listener in self._listeners if not listener.resources or resource in listener.resources
        )

    def _fell_behind(self, listening: _Listening, change: Change) -> None:
        log.exception("%s failed to take a change of %s", listening.name, change.key)
        if listening.resync is not None and not listening.behind:
            listening.behind = True
            self._tasks.start(self._resync(listening, listening.resync), f"resync {listening.name}")

    async def _resync(self, listening: _Listening, resync: Resync) -> None:
        delay_s = RESTART_S
        while True:
            await asyncio.sleep(delay_s)
            listening.behind = False
            try:
                await resync()
            except Exception:
                log.exception("%s cannot be resynchronised yet", listening.name)
                listening.behind, delay_s = True, min(delay_s * 2, LONGEST_RESTART_S)
            else:
                log.info("%s is resynchronised", listening.name)
                return
