"""Changes on their way to watchers: one reader of the store's log, and an index that finds who cares.

A change is encoded once for each representation and shared by all its watchers. Finding them costs a few dictionary
lookups, whatever their number: watchers are filed by resource, namespace and, where their field selector says so, by
object name or by the node a pod is bound to. A watcher that does not keep up is cut off (`lagging`), never waited for.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from podfit.api.status import Object
from podfit.apiserver import wire
from podfit.kit.tasks import Tasks
from podfit.store.backend import Change, Compacted, Lagging, Record, Store

log = logging.getLogger(__name__)
PREFIX = "/registry/"
BUFFER = 4096
"""Events a watcher may fall behind before it is cut off."""


class Representation(Protocol):
    """How a watcher wants objects: JSON of one version, a Table, metadata only."""

    def event(self, word: str, record: Record, revision: int) -> bytes: ...


class Selection(Protocol):
    def takes(self, record: Record) -> bool: ...


class Happening:
    """One change, with what watchers share of it."""

    __slots__ = ("_decode", "_encoded", "_new", "_old", "change", "name", "namespace", "resource")

    def __init__(self, change: Change, decode: Callable[[Record], Object] = wire.object_of) -> None:
        self.change, self._decode = change, decode
        _, _, group, plural, *rest = change.key.split("/", 5)
        self.resource = f"{PREFIX}{group}/{plural}/"
        self.namespace, self.name = (rest[0], rest[1]) if len(rest) > 1 else ("", rest[0] if rest else "")
        self._encoded: dict[tuple[int, str], bytes] = {}
        self._new: Object | None = None
        self._old: Object | None = None

    @property
    def new(self) -> Object | None:
        """Shared: read only."""
        if self._new is None and self.change.record is not None:
            self._new = self._decode(self.change.record)
        return self._new

    @property
    def old(self) -> Object | None:
        if self._old is None and self.change.previous is not None:
            self._old = self._decode(self.change.previous)
        return self._old

    def encoded(self, word: str, form: Representation) -> bytes:
        key = (id(form), word)
        data = self._encoded.get(key)
        if data is None:
            record = self.change.previous if word == "DELETED" else self.change.record
            assert record is not None
            data = self._encoded[key] = form.event(word, record, self.change.revision)
        return data


class Watcher:
    """One open watch: what it selects, how it wants it, and what waits to be sent."""

    __slots__ = ("_wake", "after", "closed", "form", "index", "lagging", "namespace", "queue", "resource", "selection")

    def __init__(
        self,
        resource: str,
        namespace: str,
        form: Representation,
        selection: Selection | None,
        index: tuple[str, str] | None,
        after: int,
    ) -> None:
        self.resource, self.namespace, self.form, self.selection, self.index = (
            resource,
            namespace,
            form,
            selection,
            index,
        )
        self.after = after
        self.queue: deque[bytes] = deque()
        self.lagging = self.closed = False
        self._wake: asyncio.Future[None] | None = None

    def offer(self, happening: Happening) -> None:
        revision = happening.change.revision
        if revision <= self.after or self.lagging:
            return
        self.after = revision
        word = self._word(happening)
        if word is None:
            return
        if len(self.queue) >= BUFFER:
            self.lagging = True
            self.queue.clear()
        else:
            self.queue.append(happening.encoded(word, self.form))
        self._notify()

    def _word(self, happening: Happening) -> str | None:
        """ADDED, MODIFIED or DELETED as this watcher sees it; None when it does not concern it."""
        change = happening.change
        was, stays = change.previous is not None, change.record is not None
        selection = self.selection
        if selection is not None:
            # The old state first: its view is still remembered, and asking for the new one replaces it.
            was = change.previous is not None and selection.takes(change.previous)
            stays = change.record is not None and selection.takes(change.record)
        if stays:
            return "MODIFIED" if was else "ADDED"
        return "DELETED" if was else None

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def close(self) -> None:
        self.closed = True
        self._notify()

    async def wait(self, timeout_s: float) -> None:
        """Until something is queued, the watcher is cut off or closed, or the time is over."""
        if self.queue or self.lagging or self.closed or timeout_s <= 0:
            return
        self._wake = asyncio.get_running_loop().create_future()
        handle = asyncio.get_running_loop().call_later(timeout_s, self._notify)
        try:
            await self._wake
        finally:
            handle.cancel()
            self._wake = None


_Place = tuple[str, str, str, str]


class Hub:
    """Files watchers and hands them what happens."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._filed: dict[_Place, dict[int, Watcher]] = {}
        self._tasks = Tasks("watch hub")
        self._listeners: list[Any] = []
        self.seen = 0
        self.decode: Callable[[Record], Object] = wire.object_of
        """How listeners get objects; the owner of a memory of decoded ones puts itself here."""

    def start(self) -> None:
        self.seen = self._store.revision
        self._tasks.start(self._run(), "hub")

    async def stop(self) -> None:
        await self._tasks.stop()
        for watcher in list(self.watchers()):
            watcher.close()

    def watchers(self) -> Iterator[Watcher]:
        for filed in self._filed.values():
            yield from filed.values()

    def listen(self, listener: Any) -> None:
        """`listener(happening)` is called for every change, in order; it must be quick and must not raise."""
        self._listeners.append(listener)

    def add(self, watcher: Watcher) -> None:
        self._filed.setdefault(self._place(watcher), {})[id(watcher)] = watcher

    def remove(self, watcher: Watcher) -> None:
        place = self._place(watcher)
        filed = self._filed.get(place)
        if filed is not None:
            filed.pop(id(watcher), None)
            if not filed:
                del self._filed[place]

    @staticmethod
    def _place(watcher: Watcher) -> _Place:
        field, value = watcher.index or ("", "")
        return watcher.resource, watcher.namespace, field, value

    async def _run(self) -> None:
        while True:
            try:
                watch = self._store.watch(PREFIX, self.seen, buffer=65536)
            except Compacted:
                self._cut_off_all()
                continue
            try:
                while True:
                    self._dispatch(await watch.next())
            except (Lagging, StopAsyncIteration):
                self._cut_off_all()
            finally:
                watch.close()

    def _cut_off_all(self) -> None:
        """The log was lost sight of: every watcher has to list again."""
        log.warning("the watch on the store was interrupted; cutting off all watchers")
        for watcher in self.watchers():
            watcher.lagging = True
            watcher.close()
        self.seen = self._store.revision

    def _dispatch(self, change: Change) -> None:
        self.seen = change.revision
        happening = Happening(change, self.decode)
        for listener in self._listeners:
            listener(happening)
        for place in self._places(happening):
            filed = self._filed.get(place)
            if filed:
                for watcher in list(filed.values()):
                    watcher.offer(happening)

    def _places(self, happening: Happening) -> Iterator[_Place]:
        """Those who follow just this node or this object first: they are the ones who act on it."""
        resource, name = happening.resource, happening.name
        namespaces = (happening.namespace, "") if happening.namespace else ("",)
        for node in self._nodes(happening):
            for namespace in namespaces:
                yield resource, namespace, "spec.nodeName", node
        for namespace in namespaces:
            yield resource, namespace, "metadata.name", name
        for namespace in namespaces:
            yield resource, namespace, "", ""

    def _nodes(self, happening: Happening) -> set[str]:
        if happening.resource != PODS:
            return set()
        objects = (happening.old, happening.new)
        return {(obj.get("spec") or {}).get("nodeName", "") for obj in objects if obj is not None}


PODS = f"{PREFIX}core/pods/"
