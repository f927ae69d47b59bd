"""The mirror of an etcd: what it reads, what it follows, and how it handles differences between the two.

The contract of all stores runs against a real etcd if there is one (`tests/contract/test_store.py`); here a minimal
etcd does what a real one does rarely.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from podfit.kit.clock import FakeClock
from podfit.store import etcd
from podfit.store.backend import Compacted, Mismatch, Record, Unavailable
from podfit.store.etcd import EtcdStore


class Etcd:
    """Keys with revisions, and one watch. `failures` are raised by the next reads of pages."""

    def __init__(self, *args: Any) -> None:
        self.keys: dict[bytes, SimpleNamespace] = {}
        self.now, self.compacted = 0, 0
        self.events: asyncio.Queue[Any] = asyncio.Queue()
        self.failures: list[Exception] = []
        self.leases: list[int] = []
        self.watches: list[int] = []

    async def connect(self) -> None: ...

    async def close(self) -> None: ...

    async def revision(self) -> int:
        return self.now

    async def page(self, start: bytes, end: bytes, revision: int, limit: int) -> Any:
        if self.failures:
            raise self.failures.pop(0)
        found = sorted((kv for key, kv in self.keys.items() if start <= key < end), key=lambda kv: kv.key)
        header = SimpleNamespace(revision=self.now)
        return SimpleNamespace(header=header, kvs=found[:2], more=len(found) > 2)

    async def put(self, key: bytes, value: bytes, expect: int | None, lease: int) -> Any:
        before = self.keys.get(key)
        if expect is not None and expect != (before.mod_revision if before else 0):
            return self._refused(before)
        self.write(key, value)
        old = before or SimpleNamespace(create_revision=0)
        return self._done(SimpleNamespace(response_put=SimpleNamespace(prev_kv=old)))

    async def delete(self, key: bytes, expect: int | None) -> Any:
        before = self.keys.get(key)
        if before is None or expect not in (None, before.mod_revision):
            return self._refused(before)
        del self.keys[key]
        self.now += 1
        self.events.put_nowait(SimpleNamespace(kv=SimpleNamespace(key=key, mod_revision=self.now), gone=True))
        return self._done(SimpleNamespace(response_delete_range=SimpleNamespace(prev_kvs=[before])))

    def write(self, key: bytes, value: bytes) -> None:
        self.now += 1
        created = self.keys[key].create_revision if key in self.keys else self.now
        kv = SimpleNamespace(key=key, value=value, create_revision=created, mod_revision=self.now)
        self.keys[key] = kv
        self.events.put_nowait(SimpleNamespace(kv=kv, gone=False))

    def _done(self, response: Any) -> Any:
        return SimpleNamespace(succeeded=True, header=SimpleNamespace(revision=self.now), responses=[response])

    def _refused(self, before: Any) -> Any:
        found = SimpleNamespace(response_range=SimpleNamespace(kvs=[before] if before else []))
        return SimpleNamespace(succeeded=False, header=SimpleNamespace(revision=self.now), responses=[found])

    async def grant(self, ttl_s: int) -> int:
        self.leases.append(ttl_s)
        return len(self.leases)

    async def revoke(self, lease: int) -> None:
        self.leases[lease - 1] = 0

    async def compact(self, revision: int) -> None:
        if revision <= self.compacted:
            raise Compacted(self.compacted)
        self.compacted = revision

    async def watch(self, start: bytes, end: bytes, revision: int) -> AsyncIterator[list[Any]]:
        self.watches.append(revision)
        while True:
            event = await self.events.get()
            if isinstance(event, Exception):
                raise event
            if event.kv.mod_revision >= revision:
                yield [event]

    @staticmethod
    def is_deletion(event: Any) -> bool:
        return bool(event.gone)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Etcd:
    made = Etcd()
    monkeypatch.setattr(etcd, "EtcdWire", lambda *args: made)
    return made


@asynccontextmanager
async def opened(clock: FakeClock | None = None) -> AsyncIterator[EtcdStore]:
    store = EtcdStore(["x:1"], clock=clock or FakeClock())
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def test_everything_is_read_page_by_page_and_the_stores_own_keys_do_not_show(server: Etcd) -> None:
    for name in (b"a", b"b", b"c", b"\0sync"):
        server.write(b"/podfit/" + name, name)
    async with opened() as store:
        assert [store.get(name) for name in ("a", "c")] == [Record("a", b"a", 1, 1), Record("c", b"c", 3, 3)]
        assert store.get("\0sync") is None and store.revision == 4


async def test_a_write_returns_when_the_mirror_has_it(server: Etcd) -> None:
    async with opened() as store:
        record = await store.put("a", b"1")
        assert store.get("a") is record and record == Record("a", b"1", 1, 1)
        assert (await store.put("a", b"2", expect=1)).created == 1
        change = await store.delete("a")
        assert (change.revision, change.record) == (3, None) and store.get("a") is None


async def test_a_write_of_another_server_shows_without_a_read(server: Etcd) -> None:
    async with opened() as store:
        server.write(b"/podfit/a", b"1")
        assert await store.sync() == 1 and store.get("a") is not None


async def test_a_conflicting_write_returns_the_current_record_which_the_view_has_too(server: Etcd) -> None:
    async with opened() as store:
        server.write(b"/podfit/a", b"theirs")
        with pytest.raises(Mismatch) as raised:
            await store.put("a", b"mine", expect=0)
        assert raised.value.current == store.get("a") == Record("a", b"theirs", 1, 1)
        with pytest.raises(Mismatch) as raised:
            await store.delete("b")
        assert raised.value.current is None


async def test_a_lease_is_released_where_the_write_failed(server: Etcd) -> None:
    async with opened() as store:
        await store.put("a", b"1", ttl_s=1.5)
        assert server.leases == [2]
        with pytest.raises(Mismatch):
            await store.put("a", b"2", expect=9, ttl_s=5)
        await asyncio.sleep(0)
        assert server.leases == [2, 0]


async def test_sync_moves_past_revisions_of_other_keys(server: Etcd) -> None:
    async with opened() as store:
        server.now = 7
        assert await store.sync() == 8
        assert store.get("\0sync") is None


async def test_an_interrupted_watch_resumes_where_it_ended(server: Etcd) -> None:
    clock = FakeClock()
    async with opened(clock) as store:
        await store.put("a", b"1")
        server.events.put_nowait(Unavailable("gone"))
        await clock.advance(5)
        await store.put("b", b"2")
        assert server.watches == [1, 2] and store.get("b") is not None


async def test_after_a_restore_from_a_backup_everything_is_read_again(server: Etcd) -> None:
    clock = FakeClock()
    async with opened(clock) as store:
        await store.put("a", b"1")
        await store.put("b", b"2")
        del server.keys[b"/podfit/b"]
        server.now = 1
        server.events.put_nowait(Unavailable("restarted"))
        await clock.advance(5)
        await clock.advance(5)
        assert store.get("b") is None and store.get("a") is not None and store.revision == 1


async def test_opening_waits_for_an_etcd_that_cannot_be_read_yet(server: Etcd) -> None:
    server.failures = [Unavailable("starting")]
    clock = FakeClock()
    store = EtcdStore(["x:1"], clock=clock)
    opening = asyncio.ensure_future(store.open())
    await clock.advance(1)
    await opening
    assert server.failures == []
    await store.close()


async def test_an_etcd_that_never_answers_is_named(server: Etcd) -> None:
    server.failures = [Unavailable("down")] * 100
    with pytest.raises(Unavailable, match="did not answer in time"):
        await EtcdStore(["x:1"], open_timeout_s=0.01, clock=FakeClock()).open()


async def test_compacting_what_another_server_compacted_is_not_an_error(server: Etcd) -> None:
    async with opened() as store:
        await store.put("a", b"1")
        await store.put("a", b"2")
        await store.compact(1)
        await store.compact(1)
        assert server.compacted == 1
