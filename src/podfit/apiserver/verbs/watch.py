"""Handles a watch: streams changes since a revision, or the current state and then changes.

The stream ends at its timeout, when the client falls too far behind (410) or when the server stops. Changes between the
first read and the registration with the hub are read from the store's log, without yielding to other tasks.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator, Sequence

from podfit.api.status import ApiError
from podfit.apiserver.calls import Call
from podfit.apiserver.protobufs.form import STREAM_TYPE, ProtobufForm, error_frame
from podfit.apiserver.representation import wire
from podfit.apiserver.representation.forms import Event, Form, HeldEvents
from podfit.apiserver.representation.matching import Matching
from podfit.apiserver.representation.negotiate import JSON, YAML, not_streamable
from podfit.apiserver.representation.selection import Chosen, chosen
from podfit.apiserver.request import Response
from podfit.apiserver.storage.events import Sink, Subscriber, Watcher, WatchEvent
from podfit.apiserver.storage.revisions import parse_revision, too_old, wait_until
from podfit.apiserver.verbs.list import prefix_of
from podfit.apiserver.writing.options import ListOptions, list_options
from podfit.store.backend import Change, Compacted, FutureRevision, Record

_SHORTEST_S, _LONGEST_S = 1800.0, 3600.0
_BOOKMARK_EVERY_S = 60.0
_LAST_BOOKMARK_S = 2.0
_CHUNK = 256
INITIAL_EVENTS_END = {"k8s.io/initial-events-end": "true"}


async def watch(call: Call) -> Response:
    accepted = call.accepted()
    if accepted.media == YAML:
        raise not_streamable()
    form = call.form(accepted)
    options = list_options(call.request.query, True)
    selection = chosen(call.objects, call.kind, options.label_selector, options.field_selector, call.route.name)
    if options.revision:
        parse_revision(options.revision)
    media = STREAM_TYPE if isinstance(form, ProtobufForm) else JSON
    return Response(200, content_type=media, stream=_Stream(call, form, options, selection))


class _Stream:
    """The stream of chunks of a watch. The front end may also pass a sink, which receives encoded events; a reader in
    this process passes a subscriber, which gets shared objects instead of chunks."""

    def __init__(self, call: Call, form: Form, options: ListOptions, selection: Chosen | None) -> None:
        self._call, self._form, self._options, self._selection = call, form, options, selection
        self._hub, self._store = call.objects.hub, call.objects.store
        timeout = options.timeout_s or 0
        self._timeout_s = float(timeout) if timeout > 0 else random.uniform(_SHORTEST_S, _LONGEST_S)
        self._prefix = prefix_of(call.kind, call.namespace)
        self._sent = call.parts.metrics.watch_events(call.route)
        self._held = HeldEvents() if call.objects.versions.converts(call.kind) else None
        self._matching = Matching(selection) if selection is not None and selection.converted else None
        self._sink: Sink | None = None
        self._subscriber: Subscriber | None = None
        self._pieces = self._run()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    def __anext__(self) -> Awaitable[bytes]:
        return self._pieces.__anext__()

    async def aclose(self) -> None:
        await self._pieces.aclose()

    def write_to(self, sink: Sink) -> None:
        """Sets a sink, before the first chunk is requested. Events that need conversion are still returned as
        chunks."""
        if self._held is None:
            self._sink = sink

    def subscribe(self, subscriber: Subscriber) -> None:
        """Like `write_to`, for a reader in this process."""
        self._subscriber = subscriber

    async def _run(self) -> AsyncGenerator[bytes, None]:
        watcher: Watcher | None = None
        call, clock = self._call, self._call.objects.clock
        metrics, began = call.parts.metrics, clock.monotonic()
        metrics.watching(call.route).inc()
        try:
            revision = int(self._options.revision or 0)
            if self._initial and revision:
                await wait_until(self._store, revision)
            elif not self._options.revision:
                await self._store.sync()
            watcher, records, at = self._begin(revision)
            if self._matching is not None and records is None:
                known = self._store.scan_at(min(at, self._store.revision), self._prefix)
                self._matching.begin(await call.objects.shown(call.kind, known))
            async for chunk in self._present(records, at):
                yield chunk
            async for chunk in self._follow(watcher):
                yield chunk
        except ApiError as error:
            yield error_frame(error) if isinstance(self._form, ProtobufForm) else error_event(error)
        finally:
            metrics.watching(call.route).dec()
            metrics.answered(call.route, 200, clock.monotonic() - began, False)
            if watcher is not None:
                self._hub.remove(watcher)

    @property
    def _initial(self) -> bool:
        """Whether the current state is sent first."""
        if self._options.send_initial is not None:
            return self._options.send_initial
        return self._options.revision in ("", "0")

    def _begin(self, revision: int) -> tuple[Watcher, list[Record] | None, int]:
        """Registers with the hub and returns the initial events and their revision."""
        if self._initial:
            at = self._store.revision
            return self._register(at), self._store.scan(self._prefix), at
        after = revision or self._store.revision
        watcher = self._register(after)
        try:
            self._catch_up(watcher, after)
        except Compacted as gone:
            self._hub.remove(watcher)
            raise too_old(after, gone.oldest) from None
        except FutureRevision:
            pass
        return watcher, None, after

    def _register(self, after: int) -> Watcher:
        selection = self._selection if self._matching is None else None
        watcher = Watcher(
            self._call.kind.storage_prefix,
            self._call.namespace,
            self._held or self._form,
            selection,
            selection.index(self._call.kind) if selection is not None else None,
            after,
            self._sent.inc,
            self._sink,
            self._subscriber if self._held is None else None,
        )
        self._hub.add(watcher)
        return watcher

    def _catch_up(self, watcher: Watcher, after: int) -> None:
        """The changes that are already in the log; the hub delivers only later ones."""
        backlog = self._store.watch(self._prefix, after)
        try:
            while (change := backlog.next_nowait()) is not None:
                watcher.offer(WatchEvent(change, self._hub.decoded.of, self._hub.decoded.strip))
        finally:
            backlog.close()
        watcher.after = max(watcher.after, self._store.revision)

    async def _present(self, records: list[Record] | None, at: int) -> AsyncIterator[bytes]:
        if records is None:
            return
        call = self._call
        for start in range(0, len(records), _CHUNK):
            part = records[start : start + _CHUNK]
            if self._matching is not None:
                part = self._matching.begin(await call.objects.shown(call.kind, part))
            elif self._selection is not None:
                taken: list[Record] = []
                await call.parts.long_responses.run(call.request, self._selection.filter(part, taken))
                part = taken
            events: list[bytes] = []
            await call.parts.long_responses.run(
                call.request, self._added(await call.objects.shown(call.kind, part), events)
            )
            self._sent.inc(len(events))
            if events:
                yield b"".join(events)
        if self._options.send_initial and self._options.bookmarks:
            yield self._form.bookmark(at, INITIAL_EVENTS_END)

    def _added(self, records: Sequence[Record], events: list[bytes]) -> Iterator[None]:
        for record in records:
            events.append(self._form.event("ADDED", record, record.modified))
            yield

    async def _follow(self, watcher: Watcher) -> AsyncIterator[bytes]:
        clock = self._call.objects.clock
        end = clock.monotonic() + self._timeout_s
        bookmark = self._next_bookmark(clock.monotonic(), end)
        while True:
            now = clock.monotonic()
            await watcher.wait(min(end, bookmark) - now)
            if watcher.subscriber is not None and watcher.objects:
                while watcher.objects:
                    watcher.subscriber(*watcher.objects.popleft())
                continue
            if watcher.queue:
                data = b"".join(watcher.queue)
                watcher.queue.clear()
                if self._held is not None:
                    data = self._sent_on(await self._converted(self._held.take()))
                if data:
                    yield data
                continue
            if watcher.lagging:
                raise too_old(watcher.after, self._store.revision)
            now = clock.monotonic()
            if watcher.closed or now >= end:
                return
            if now >= bookmark:
                yield self._form.bookmark(max(self._hub.seen, watcher.after))
                bookmark = self._next_bookmark(now, end)

    async def _converted(self, events: list[Event]) -> list[Event]:
        records = await self._call.objects.shown(self._call.kind, [record for _, record, _ in events])
        shown: list[Event | None] = [
            (word, record, revision) for (word, _, revision), record in zip(events, records, strict=True)
        ]
        if self._matching is not None:
            shown = [self._matching.between(event) for event in shown if event is not None]
        return [event for event in shown if event is not None]

    def _sent_on(self, events: list[Event]) -> bytes:
        """The bytes of converted events; empty if a subscriber gets the objects."""
        if self._subscriber is None:
            return b"".join([self._form.event(*event) for event in events])
        for word, record, revision in events:
            change = Change(revision, record.key, None if word == "DELETED" else record, record)
            self._subscriber(word, self._event(change).shown(word, self._form))
        return b""

    def _event(self, change: Change) -> WatchEvent:
        """The event for a subscriber. The server's object is shared if the record was not converted."""
        record, decoded = change.record or change.previous, self._hub.decoded
        if record is not None and self._store.get(record.key) is record:
            return WatchEvent(change, decoded.of, decoded.strip)
        return WatchEvent(change)

    def _next_bookmark(self, now: float, end: float) -> float:
        if not self._options.bookmarks:
            return end
        last = end - _LAST_BOOKMARK_S
        due = now + _BOOKMARK_EVERY_S
        if due < last:
            return due
        return last if now < last else end


def error_event(error: ApiError) -> bytes:
    return b'{"type":"ERROR","object":%b}\n' % wire.encode(error.to_status())
