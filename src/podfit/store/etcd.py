"""The store of several machines: etcd is the source of truth, and the view mirrors it through one watch.

Revisions are etcd's. Servers that share an etcd see each other's writes. A write is decided by etcd in a transaction
and returns when the mirror has it; a read that must see all writes calls `sync` first.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Sequence
from typing import Any

from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock, RealClock
from podfit.kit.concurrency.tasks import Tasks
from podfit.store.backend import Change, Compacted, Mismatch, Record, StoreError, Unavailable
from podfit.store.etcd_wire import EtcdWire, Tls
from podfit.store.view import View

log = logging.getLogger(__name__)

PAGE = 500
# Keys with this prefix belong to the store and are hidden. Writing this one moves the mirror past foreign revisions.
HIDDEN = "\0"
SYNC_KEY = HIDDEN + "sync"
CATCH_UP_S = 0.05


class EtcdStore(View):
    def __init__(
        self,
        endpoints: Sequence[str],
        prefix: str = "/podfit",
        timeout_s: float = 5.0,
        open_timeout_s: float = 15.0,
        tls: Tls | None = None,
        history: int = 10_000,
        history_bytes: int = 64 << 20,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(history, history_bytes)
        self._wire = EtcdWire(endpoints, timeout_s, tls)
        self._start = (prefix.rstrip("/") + "/").encode()
        self._end = self._start[:-1] + b"0"  # the byte after "/": the end of everything below the prefix
        self._timeout_s, self._open_timeout_s = timeout_s, open_timeout_s
        self._clock = clock or RealClock()
        self._backoff = Backoff(0.05, 2.0, jitter=0.2)
        self._tasks = Tasks("etcd store")

    async def open(self) -> None:
        await self._wire.connect()
        try:
            async with asyncio.timeout(self._open_timeout_s):
                await self._load_with_retries()
        except BaseException as error:
            await self._wire.close()
            if isinstance(error, TimeoutError):
                raise Unavailable("etcd did not answer in time; check that it runs and is reachable") from error
            raise
        self._tasks.start(self._mirror(), name="mirror")

    async def close(self) -> None:
        await self._tasks.stop()
        await self._wire.close()
        self.end()

    async def sync(self) -> int:
        agreed = await self._wire.revision()
        if not await self.wait_for(agreed, CATCH_UP_S):
            # The newest revision may belong to a key that is not ours: then no event shows that the mirror is complete.
            # A write of our own shows it, because events arrive in order.
            answer = await self._wire.put(self._key(SYNC_KEY), b"", None, 0)
            await self._until_visible(int(answer.header.revision))
        return self.revision

    async def put(self, key: str, value: bytes, expect: int | None = None, ttl_s: float = 0) -> Record:
        # A lease per key: keys of one lease expire in one revision, and a watcher could not resume among them.
        lease = await self._wire.grant(math.ceil(ttl_s)) if ttl_s > 0 else 0
        answer = await self._wire.put(self._key(key), value, expect, lease)
        if not answer.succeeded:
            if lease:
                self._tasks.start(self._release(lease))
            raise await self._mismatch(key, answer)
        revision = int(answer.header.revision)
        await self._until_visible(revision)
        record = self.get(key)
        if record is not None and record.modified == revision:
            return record
        before = answer.responses[0].response_put.prev_kv
        return Record(key, value, int(before.create_revision) or revision, revision)

    async def delete(self, key: str, expect: int | None = None) -> Change:
        answer = await self._wire.delete(self._key(key), expect)
        if not answer.succeeded:
            raise await self._mismatch(key, answer)
        revision = int(answer.header.revision)
        await self._until_visible(revision)
        return Change(revision, key, None, self._record(answer.responses[0].response_delete_range.prev_kvs[0]))

    async def compact(self, revision: int) -> None:
        self.forget(revision)
        with contextlib.suppress(Compacted):  # another writer was faster
            await self._wire.compact(revision)

    def _key(self, key: str) -> bytes:
        return self._start + key.encode()

    def _record(self, kv: Any) -> Record:
        key = kv.key[len(self._start) :].decode()
        return Record(key, kv.value, int(kv.create_revision), int(kv.mod_revision))

    async def _until_visible(self, revision: int) -> None:
        if not await self.wait_for(revision, self._timeout_s):
            raise Unavailable(f"etcd took the write as revision {revision}, but the watch has not shown it")

    async def _mismatch(self, key: str, answer: Any) -> Mismatch:
        """The error with the current record. Waits until the view has that record, or a retry would fail on the same
        stale one.
        """
        found = answer.responses[0].response_range.kvs
        if found:
            current = self._record(found[0])
            await self._until_visible(current.modified)
            return Mismatch(current)
        if self.get(key) is not None:
            await self.sync()
        return Mismatch(None)

    async def _release(self, lease: int) -> None:
        with contextlib.suppress(StoreError):  # it expires by itself, only later
            await self._wire.revoke(lease)

    async def _load_with_retries(self) -> None:
        while True:
            try:
                await self._load()
                return
            except StoreError as error:
                log.warning("etcd store: cannot read yet: %s", error)
                await self._clock.sleep(self._backoff.next("load"))

    async def _load(self) -> None:
        """Reads everything at one revision. Raises Compacted if that revision was compacted meanwhile."""
        records: list[Record] = []
        start, revision = self._start, 0
        while True:
            answer = await self._wire.page(start, self._end, revision, PAGE)
            revision = revision or int(answer.header.revision)
            records += [self._record(kv) for kv in answer.kvs if not kv.key.startswith(self._key(HIDDEN))]
            if not answer.more:
                break
            start = answer.kvs[-1].key + b"\0"
        self.reset(records, revision, revision)
        self._backoff.forget("load")

    async def _mirror(self) -> None:
        while True:
            try:
                await self._follow()
            except Compacted:
                log.warning(
                    "etcd store: changes after revision %d are no longer available, reading everything again",
                    self.revision,
                )
                await self._load_with_retries()
            except StoreError as error:
                log.warning("etcd store: watch interrupted: %s", error)
            await self._clock.sleep(self._backoff.next("watch"))

    async def _follow(self) -> None:
        if await self._wire.revision() < self.revision:
            # Restored from a backup, or another cluster: a watch from our revision would wait silently forever.
            raise Compacted(0)
        events = self._wire.watch(self._start, self._end, self.revision + 1)
        async with contextlib.aclosing(events):
            async for group in events:
                self._backoff.forget("watch")
                for event in group:
                    self._take(event)

    def _take(self, event: Any) -> None:
        revision = int(event.kv.mod_revision)
        key = event.kv.key[len(self._start) :].decode()
        previous = self.get(key)
        gone = self._wire.is_deletion(event)
        if key.startswith(HIDDEN) or (gone and previous is None):
            self.advance(revision)
            return
        record = None if gone else self._record(event.kv)
        self.apply(Change(revision, key if previous is None else previous.key, record, previous))
