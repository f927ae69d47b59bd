"""Changes for watchers: events, whose encoded parts watchers share, and an index of watchers.

The `hub` reads the store's log and distributes changes.

A change is encoded once for each representation and shared by all its watchers; watchers in this process get the
existing object instead. Finding watchers costs a few dictionary lookups, independent of their number: they are indexed
by resource, namespace and, if their field selector has one, by object name or by the node a pod is bound to. The server
never waits for a slow watcher, but cuts it off (`lagging`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from podfit.api.objects import Object, freeze
from podfit.apiserver.representation import wire
from podfit.apiserver.storage.object_cache import Stripped
from podfit.store.backend import Change, Record

log = logging.getLogger(__name__)
PREFIX = "/registry/"
BUFFER = 4096
"""The most unsent events of a watcher before it is cut off."""
AT_ONCE = 256
"""The number of watchers that get a change in one iteration of the event loop; the others follow in later ones."""

Strip = Callable[[Record, Object], Object]
"""The object of a record for watchers in this process, from the whole object."""


class Representation(Protocol):
    """A representation of events, shared by watchers: JSON of one version, a Table, metadata only."""

    def event(self, word: str, record: Record, revision: int) -> bytes: ...


class Selection(Protocol):
    @property
    def key(self) -> str:
        """A key that is equal for selections that match the same objects."""

    def between(self, event: WatchEvent) -> tuple[bool, bool]:
        """Whether the selection matches the object before and after the change."""


Reader = Callable[[Object], str]
"""Reads a selectable field from a stored object."""


class WatchEvent:
    """One change, with the parts that its watchers share."""

    __slots__ = (
        "_as_it_is",
        "_as_it_was",
        "_decode",
        "_encoded",
        "_new",
        "_old",
        "_shown",
        "_strip",
        "_texts",
        "_word",
        "_words",
        "at_once",
        "change",
        "name",
        "namespace",
        "resource",
        "revision",
    )

    def __init__(
        self, change: Change, decode: Callable[[Record], Object] = wire.object_of, strip: Strip | None = None
    ) -> None:
        self.change, self.revision, self._decode, self._strip = change, change.revision, decode, strip
        _, _, group, plural, *rest = change.key.split("/", 5)
        self.resource = f"{PREFIX}{group}/{plural}/"
        self.namespace, self.name = (rest[0], rest[1]) if len(rest) > 1 else ("", rest[0] if rest else "")
        self._word = _word(change.previous is not None, change.record is not None)
        self._encoded: dict[tuple[int, str], bytes] = {}
        self._shown: dict[tuple[int, str], Object] = {}
        self._words: dict[str, str | None] = {}
        self._texts: dict[Reader, tuple[str, str]] = {}
        self._as_it_is: Object | None = None
        self._as_it_was: Object | None = None
        self.at_once = AT_ONCE
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

    def word(self, selection: Selection | None) -> str | None:
        """The event type for this selection (ADDED, MODIFIED or DELETED); None if it does not match."""
        if selection is None:
            return self._word
        key = selection.key
        if key in self._words:
            return self._words[key]
        word = self._words[key] = _word(*selection.between(self))
        return word

    def texts(self, read: Reader) -> tuple[str, str]:
        """A field before and after the change, each "" if there is no object; read once for all watchers."""
        known = self._texts.get(read)
        if known is None:
            old, new = self.old, self.new
            known = read(old) if old is not None else "", read(new) if new is not None else ""
            self._texts[read] = known
        return known

    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes that a pod is, or was, bound to."""
        was, now = _node_of(self.old), _node_of(self.new)
        if now is None or was == now:
            return () if was is None else (was,)
        return (now,) if was is None else (was, now)

    def encoded(self, word: str, form: Representation) -> bytes:
        key = (id(form), word)
        data = self._encoded.get(key)
        if data is None:
            record = self.change.previous if word == "DELETED" else self.change.record
            assert record is not None
            data = self._encoded[key] = form.event(word, record, self.change.revision)
        return data

    def shown(self, word: str, form: Representation) -> Object:
        """The object that `encoded` describes, for watchers in this process: shared, without managedFields."""
        key = (id(form), word)
        obj = self._shown.get(key)
        if obj is None:
            as_stored = getattr(form, "as_stored", False)
            obj = self._shown[key] = self._stripped(word) if as_stored else self._formed(word, form)
        return obj

    def _stripped(self, word: str) -> Object:
        if word == "DELETED":
            if self._as_it_was is None:
                assert self.old is not None
                self._as_it_was = Stripped(self.old, self.revision)
            return self._as_it_was
        if self._as_it_is is None:
            assert self.new is not None and self.change.record is not None
            record, strip = self.change.record, self._strip
            self._as_it_is = strip(record, self.new) if strip is not None else Stripped(self.new, self.revision)
        return self._as_it_is

    def _formed(self, word: str, form: Representation) -> Object:
        obj: Object = wire.decode(self.encoded(word, form))["object"]
        obj.get("metadata", {}).pop("managedFields", None)
        return freeze(obj)


def _node_of(pod: Object | None) -> str | None:
    return None if pod is None else (pod.get("spec") or {}).get("nodeName", "")


def _word(was: bool, stays: bool) -> str | None:
    if stays:
        return "MODIFIED" if was else "ADDED"
    return "DELETED" if was else None


Sink = Callable[[bytes], bool]
"""Accepts an event immediately; False if it has to be queued."""
Subscriber = Callable[[str, Object], None]
"""Like a sink, for a watcher in this process, which gets the type and the shared object, immediately or from the queue.
If it raises, the event is queued and the watch delivers it again, so that the error surfaces there and not in the
writer's request."""


class Watcher:
    """An open watch: its selection, its form, and its queue."""

    __slots__ = (
        "_timer",
        "_wake",
        "after",
        "closed",
        "count",
        "form",
        "index",
        "lagging",
        "namespace",
        "objects",
        "queue",
        "resource",
        "selection",
        "sink",
        "subscriber",
    )

    def __init__(
        self,
        resource: str,
        namespace: str,
        form: Representation,
        selection: Selection | None,
        index: tuple[str, str] | None,
        after: int,
        count: Callable[[], None] = lambda: None,
        sink: Sink | None = None,
        subscriber: Subscriber | None = None,
    ) -> None:
        """`count` is called for each event that is sent."""
        self.count, self.sink, self.subscriber = count, sink, subscriber
        self.resource, self.namespace, self.form, self.selection, self.index = (
            resource,
            namespace,
            form,
            selection,
            index,
        )
        self.after = after
        self.queue: deque[bytes] = deque()
        self.objects: deque[tuple[str, Object]] = deque()
        """Instead of the queue, for a subscriber."""
        self.lagging = self.closed = False
        self._wake: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def offer(self, event: WatchEvent) -> None:
        if event.revision <= self.after or self.lagging:
            return
        self.after = event.revision
        word = event.word(self.selection)
        if word is None:
            return
        self.count()
        if self._wake is not None and not self.queue and not self.objects and event.at_once:
            # The reader is waiting and has no unread events, so it need not be woken.
            if self.subscriber is not None:
                event.at_once -= 1
                try:
                    self.subscriber(word, event.shown(word, self.form))
                    return
                except Exception:
                    log.debug("a watcher of %s failed to take an event", self.resource, exc_info=True)
            elif self.sink is not None:
                event.at_once -= 1
                if self.sink(event.encoded(word, self.form)):
                    return
        self._keep(event, word)

    def _keep(self, event: WatchEvent, word: str) -> None:
        """Queues an event until the reader fetches it."""
        if len(self.queue) + len(self.objects) >= BUFFER:
            self._cut_off()
        elif self.subscriber is not None:
            self.objects.append((word, event.shown(word, self.form)))
        else:
            self.queue.append(event.encoded(word, self.form))
        self._notify()

    def _cut_off(self) -> None:
        self.lagging = True
        self.queue.clear()
        self.objects.clear()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def close(self) -> None:
        self.closed = True
        self._notify()

    async def wait(self, timeout_s: float) -> None:
        """Waits until an event is queued, the watcher is cut off or closed, or the timeout has passed. May return
        early: callers check again.
        """
        if self.queue or self.objects or self.lagging or self.closed or timeout_s <= 0:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + timeout_s
        if self._timer is None or self._timer.when() > due:
            # One timer for many waits: events are frequent, and the other deadlines are far away.
            self._disarm()
            self._timer = loop.call_at(due, self._time_is_over)
        self._wake = loop.create_future()
        try:
            await self._wake
        finally:
            self._wake = None

    def _time_is_over(self) -> None:
        self._timer = None
        self._notify()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def fail(self) -> None:
        """Called when an event cannot be encoded for this watcher, which then has to list again."""
        self._cut_off()
        self._notify()

    def end(self) -> None:
        """Called when the reader has gone."""
        self._disarm()


Places = dict[tuple[str, str], dict[int, Watcher]]
"""By namespace and value, then by identity."""


class WatcherIndex:
    """The watchers of one resource, by the field they are indexed by ("": none), then by namespace and value."""

    def __init__(self) -> None:
        self._filed: dict[str, Places] = {}

    def __iter__(self) -> Iterator[Watcher]:
        for places in self._filed.values():
            for there in places.values():
                yield from there.values()

    def followers(self, namespace: str, name: str) -> int:
        """The number of watchers of the whole resource, of this namespace or of this object."""
        found = 0
        for field, value in (("", ""), ("metadata.name", name)) if name else (("", ""),):
            places = self._filed.get(field)
            for scope in ("", namespace) if namespace else ("",):
                if places and (there := places.get((scope, value))):
                    found += len(there)
        return found

    def add(self, watcher: Watcher) -> None:
        field, value = watcher.index or ("", "")
        there = self._filed.setdefault(field, {}).setdefault((watcher.namespace, value), {})
        there[id(watcher)] = watcher

    def remove(self, watcher: Watcher) -> None:
        field, value = watcher.index or ("", "")
        places = self._filed.get(field, {})
        there = places.get((watcher.namespace, value), {})
        there.pop(id(watcher), None)
        if not there:
            places.pop((watcher.namespace, value), None)
        if not places:
            self._filed.pop(field, None)

    def offer_to_filed(self, events: list[WatchEvent]) -> bool:
        """Offers a change to watchers of a single node or object, before all others because they act on it. Returns
        False if there are none."""
        by_node, by_name = self._filed.get("spec.nodeName"), self._filed.get("metadata.name")
        found = False
        if by_node is not None:
            for event in events:
                for node in event.nodes():
                    found = self._offer_at(by_node, node, event) or found
        if by_name is not None:
            for event in events:
                found = self._offer_at(by_name, event.name, event) or found
        return found

    def offer_to_all(self, events: list[WatchEvent]) -> None:
        """Offers changes to watchers of everything. Each gets all changes before the next watcher does, because
        repeating the same processing is faster than alternating between watchers."""
        everywhere = self._filed.get("")
        if everywhere is not None:
            for namespace in dict.fromkeys([event.namespace for event in events if event.namespace]):
                inside = [event for event in events if event.namespace == namespace]
                self._offer_all(everywhere.get((namespace, "")), inside)
            self._offer_all(everywhere.get(("", "")), events)

    def _offer_at(self, places: Places, value: str, event: WatchEvent) -> bool:
        found = False
        for namespace in (event.namespace, "") if event.namespace else ("",):
            there = places.get((namespace, value))
            if there:
                self._offer_all(there, [event])
                found = True
        return found

    @staticmethod
    def _offer_all(there: dict[int, Watcher] | None, events: list[WatchEvent]) -> None:
        for watcher in list(there.values()) if there is not None else ():
            for event in events:
                try:
                    watcher.offer(event)
                except Exception:
                    log.exception("a change of %s cannot be shown to a watcher, which is cut off", event.change.key)
                    watcher.fail()
