"""The contract of `podfit.store.backend`, run on every store: memory, SQLite, and a real etcd on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from podfit.store.backend import (
    Change,
    Compacted,
    FutureRevision,
    Lagging,
    Mismatch,
    Record,
    Store,
    Unavailable,
    Watch,
)
from podfit.store.compact import ROUND_KEY, Compactor
from podfit.store.disk.sqlite import SqliteStore
from podfit.store.etcd import EtcdStore
from podfit.store.memory import MemoryStore

PATIENCE_S = 20.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Etcd:
    """A real etcd with one member, on its own ports and in its own folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.client, self.peer = folder, free_port(), free_port()
        self.endpoint = f"127.0.0.1:{self.client}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        client, peer = f"http://{self.endpoint}", f"http://127.0.0.1:{self.peer}"
        command = (
            f"etcd --name one --data-dir {self.folder} --initial-cluster one={peer} --logger zap --log-level error"
        )
        command += f" --listen-client-urls {client} --advertise-client-urls {client}"
        command += f" --listen-peer-urls {peer} --initial-advertise-peer-urls {peer}"
        self.process = subprocess.Popen(command.split(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def need_etcd() -> None:
    if shutil.which("etcd") is None:
        pytest.skip("etcd is not installed (Debian: apt-get install etcd-server)")


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    need_etcd()
    server = Etcd(tmp_path_factory.mktemp("etcd") / "data")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[Etcd]:
    """An etcd that a test may kill."""
    need_etcd()
    server = Etcd(tmp_path / "data")
    server.start()
    yield server
    server.kill()


@pytest.fixture(params=["memory", "sqlite", "etcd"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Store]:
    """Creates empty stores of one kind."""

    def make(history: int = 10_000) -> Store:
        name = uuid.uuid4().hex
        if request.param == "memory":
            return MemoryStore(history=history)
        if request.param == "sqlite":
            return SqliteStore(tmp_path / name, history=history)
        return EtcdStore([request.getfixturevalue("etcd").endpoint], prefix=f"/{name}", history=history)

    return make


@pytest.fixture
async def store(make_store: Callable[..., Store]) -> AsyncIterator[Store]:
    made = make_store()
    await made.open()
    yield made
    await made.close()


async def take(watch: Watch, count: int) -> list[Change]:
    async with asyncio.timeout(PATIENCE_S):
        return [await watch.next() for _ in range(count)]


async def test_a_fresh_store_is_empty_and_has_a_revision(store: Store) -> None:
    assert store.revision >= 1
    assert store.compacted <= store.revision
    assert store.scan("") == [] and store.count("") == 0
    assert store.get("a") is None


async def test_a_write_is_visible_when_it_returns(store: Store) -> None:
    before = store.revision
    record = await store.put("pods/a", b"one")
    assert record == store.get("pods/a") == Record("pods/a", b"one", record.modified, record.modified)
    assert record.created == record.modified == store.revision > before


async def test_an_update_keeps_created_and_moves_modified(store: Store) -> None:
    first = await store.put("a", b"1")
    second = await store.put("a", b"2", expect=first.modified)
    assert second.created == first.created
    assert second.modified > first.modified
    assert store.get("a") == second


async def test_every_change_has_a_revision_of_its_own(store: Store) -> None:
    records = await asyncio.gather(*(store.put(f"k{i}", b"") for i in range(50)))
    assert len({record.modified for record in records}) == 50
    assert store.revision == max(record.modified for record in records)


async def test_create_only_refuses_an_existing_key_and_shows_it(store: Store) -> None:
    there = await store.put("a", b"1", expect=0)
    with pytest.raises(Mismatch) as refusal:
        await store.put("a", b"2", expect=0)
    assert refusal.value.current == there == store.get("a")


async def test_a_stale_writer_is_refused_and_nothing_changes(store: Store) -> None:
    first = await store.put("a", b"1")
    second = await store.put("a", b"2")
    revision = store.revision
    with pytest.raises(Mismatch) as refusal:
        await store.put("a", b"3", expect=first.modified)
    with pytest.raises(Mismatch):
        await store.delete("a", expect=first.modified)
    assert refusal.value.current == second == store.get("a")
    assert store.revision == revision


async def test_expecting_a_missing_key_is_refused(store: Store) -> None:
    for attempt in (store.put("a", b"", expect=store.revision), store.delete("a"), store.delete("a", expect=7)):
        with pytest.raises(Mismatch) as refusal:
            await attempt
        assert refusal.value.current is None
    assert store.count("") == 0


async def test_a_deletion_is_a_change_with_the_last_record(store: Store) -> None:
    record = await store.put("a", b"1")
    change = await store.delete("a", expect=record.modified)
    assert change == Change(store.revision, "a", None, record)
    assert store.get("a") is None and store.scan("a") == []


async def test_a_key_recreated_after_deletion_has_a_new_create_revision(store: Store) -> None:
    first = await store.put("a", b"1")
    await store.delete("a")
    again = await store.put("a", b"1", expect=0)
    assert again.created == again.modified > first.modified


async def test_any_bytes_and_empty_values_are_kept(store: Store) -> None:
    values = [b"", bytes(range(256)), b"x" * 300_000]
    for number, value in enumerate(values):
        await store.put(f"v/{number}", value)
    assert [record.value for record in store.scan("v/")] == values


async def test_scan_is_in_key_order_and_pages(store: Store) -> None:
    for key in ("b/3", "b/1", "a/9", "b", "b/2", "b0", "b/ü"):
        await store.put(key, key.encode())
    assert [record.key for record in store.scan("b/")] == ["b/1", "b/2", "b/3", "b/ü"]
    assert [record.key for record in store.scan("b/", limit=2)] == ["b/1", "b/2"]
    assert [record.key for record in store.scan("b/", after="b/2", limit=1)] == ["b/3"]
    assert [record.key for record in store.scan("b/", after="b/20")] == ["b/3", "b/ü"]
    assert [record.key for record in store.scan("")] == ["a/9", "b", "b/1", "b/2", "b/3", "b/ü", "b0"]
    assert (store.count("b/"), store.count("b/", after="b/2"), store.count("c"), store.count("")) == (4, 2, 0, 7)


async def test_scan_at_shows_things_as_they_stood(store: Store) -> None:
    a = await store.put("p/a", b"1")
    b = await store.put("p/b", b"1")
    then = store.revision
    await store.put("p/a", b"2")
    await store.delete("p/b")
    await store.put("p/c", b"1")
    assert store.scan_at(then, "p/") == [a, b]
    assert store.scan_at(then, "p/", after="p/a") == [b]
    assert store.scan_at(then, "p/", limit=1) == [a]
    assert store.scan_at(store.revision, "p/") == store.scan("p/")
    assert (store.count_at(then, "p/"), store.count_at(then, "p/", after="p/b")) == (2, 0)
    with pytest.raises(FutureRevision):
        store.scan_at(store.revision + 1, "p/")


async def test_a_watch_receives_each_change_once_and_in_order(store: Store) -> None:
    old = await store.put("p/a", b"0")
    start = store.revision
    past = await store.put("p/a", b"1", expect=old.modified)
    watch = store.watch("p/", after=start)
    await store.put("q/a", b"other")
    made = await store.put("p/b", b"1")
    gone = await store.delete("p/a")
    assert await take(watch, 3) == [
        Change(past.modified, "p/a", past, old),
        Change(made.modified, "p/b", made, None),
        Change(gone.revision, "p/a", None, past),
    ]
    assert watch.next_nowait() is None
    watch.close()


async def test_watches_of_all_prefixes_of_a_key_receive_its_change(store: Store) -> None:
    prefixes = ["", "pods/", "pods/ns/", "pods/ns/a", "pods/ns2/", "nodes/"]
    watches = {prefix: store.watch(prefix, store.revision) for prefix in prefixes}
    await store.put("pods/ns/a", b"")
    heard = {prefix for prefix, watch in watches.items() if watch.next_nowait() is not None}
    assert heard == {"", "pods/", "pods/ns/", "pods/ns/a"}


async def test_a_waiting_watch_wakes(store: Store) -> None:
    watch = store.watch("a", store.revision)
    waiting = asyncio.ensure_future(take(watch, 1))
    await asyncio.sleep(0)
    record = await store.put("a", b"")
    assert (await waiting)[0].record == record


async def test_a_closed_watch_ends_and_receives_no_more_events(store: Store) -> None:
    watch = store.watch("a", store.revision)
    waiting = asyncio.ensure_future(watch.next())
    await asyncio.sleep(0)
    watch.close()
    with pytest.raises(StopAsyncIteration):
        await waiting
    await store.put("a", b"")
    assert watch.next_nowait() is None
    assert [change async for change in watch] == []


async def test_a_slow_watch_is_closed_and_the_others_continue(store: Store) -> None:
    slow, quick = store.watch("", store.revision, buffer=3), store.watch("", store.revision, buffer=50)
    for number in range(5):
        await store.put("a", str(number).encode())
    with pytest.raises(Lagging):
        await slow.next()
    with pytest.raises(Lagging):
        slow.next_nowait()
    heard = await take(quick, 5)
    assert [change.record.value for change in heard if change.record] == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_watch_may_start_further_back_than_its_buffer_is_long(store: Store) -> None:
    start = store.revision
    for number in range(10):
        await store.put("a", str(number).encode())
    watch = store.watch("a", start, buffer=2)
    await store.put("a", b"10")
    assert [change.record.value for change in await take(watch, 11) if change.record] == [b"%d" % n for n in range(11)]


async def test_a_watch_from_the_future_is_refused(store: Store) -> None:
    with pytest.raises(FutureRevision):
        store.watch("a", store.revision + 1)


async def test_compaction_forgets_history_but_no_record(store: Store) -> None:
    start = store.revision
    first = await store.put("a", b"1")
    await store.put("a", b"2")
    kept = store.revision
    await store.put("b", b"1")
    await store.compact(kept)
    assert store.compacted == kept
    for revision in (start, first.modified):
        with pytest.raises(Compacted) as refusal:
            store.scan_at(revision, "")
        assert refusal.value.oldest == kept
        with pytest.raises(Compacted):
            store.watch("", revision)
    assert [record.key for record in store.scan_at(kept, "")] == ["a"]
    assert (await take(store.watch("", kept), 1))[0].key == "b"
    assert [record.value for record in store.scan("")] == [b"2", b"1"]


async def test_compacting_twice_or_backwards_is_harmless_and_ahead_is_refused(store: Store) -> None:
    await store.put("a", b"1")
    await store.put("a", b"2")
    await store.compact(store.revision)
    await store.compact(store.revision)
    await store.compact(store.revision - 1)
    assert store.compacted == store.revision
    with pytest.raises(FutureRevision):
        await store.compact(store.revision + 100)


async def test_an_open_watch_survives_compaction(store: Store) -> None:
    watch = store.watch("", store.revision)
    await store.put("a", b"1")
    await store.put("a", b"2")
    await store.compact(store.revision)
    assert len(await take(watch, 2)) == 2


async def test_history_is_bounded(make_store: Callable[..., Store]) -> None:
    store = make_store(history=10)
    await store.open()
    try:
        start = store.revision
        for number in range(200):
            await store.put("a", str(number).encode())
        with pytest.raises(Compacted):
            store.watch("", start)
        assert store.revision - store.compacted >= 10
        assert store.scan_at(store.revision - 10, "a")[0].value == b"189"
    finally:
        await store.close()


async def test_a_key_with_a_time_to_live_vanishes_with_a_change(store: Store) -> None:
    watch = store.watch("e/", store.revision)
    record = await store.put("e/short", b"x", ttl_s=1)
    made, gone = await take(watch, 2)
    assert (made.record, gone.record, gone.previous) == (record, None, record)
    assert store.get("e/short") is None


async def test_writing_again_takes_the_time_to_live_away(store: Store) -> None:
    watch = store.watch("e/", store.revision)
    await store.put("e/kept", b"x", ttl_s=1)
    kept = await store.put("e/kept", b"y")
    await store.put("e/other", b"z", ttl_s=2)
    changes = await take(watch, 4)
    assert changes[3].key == "e/other" and changes[3].record is None
    assert store.get("e/kept") == kept


async def test_counting_with_the_optimistic_check_loses_nothing(store: Store) -> None:
    await store.put("n", b"0")

    async def count() -> None:
        done = 0
        while done < 5:
            record = store.get("n")
            assert record is not None
            with contextlib.suppress(Mismatch):
                await store.put("n", str(int(record.value) + 1).encode(), expect=record.modified)
                done += 1

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(count() for _ in range(8)))
    record = store.get("n")
    assert record is not None and record.value == b"40"


async def test_of_racing_creators_one_wins(store: Store) -> None:
    outcomes = await asyncio.gather(*(store.put("a", b"", expect=0) for _ in range(10)), return_exceptions=True)
    winners = [outcome for outcome in outcomes if isinstance(outcome, Record)]
    losers = [outcome for outcome in outcomes if isinstance(outcome, Mismatch)]
    assert (len(winners), len(losers)) == (1, 9)
    assert all(loser.current == winners[0] for loser in losers)


async def test_wait_for_a_revision(store: Store) -> None:
    assert await store.wait_for(store.revision, 0)
    assert not await store.wait_for(store.revision + 1_000_000, 0.01)
    waiting = asyncio.ensure_future(store.wait_for(store.revision + 1, PATIENCE_S))
    await asyncio.sleep(0)
    await store.put("a", b"")
    assert await waiting


async def test_sync_returns_the_newest_revision(store: Store) -> None:
    record = await store.put("a", b"")
    assert await store.sync() >= record.modified


async def test_a_cancelled_writer_does_not_affect_others(store: Store) -> None:
    doomed = asyncio.ensure_future(store.put("a", b""))
    await asyncio.sleep(0)
    doomed.cancel()
    await asyncio.gather(doomed, return_exceptions=True)
    assert (await store.put("b", b"")).value == b""


async def test_closing_ends_watches_and_refuses_writes(make_store: Callable[..., Store]) -> None:
    store = make_store()
    await store.open()
    watch = store.watch("", store.revision)
    await store.close()
    with pytest.raises(StopAsyncIteration):
        await watch.next()
    with pytest.raises(Unavailable):
        await store.put("a", b"")


async def test_the_compactor_keeps_one_interval_of_history(store: Store) -> None:
    compactor = Compactor(store)
    await store.put("a", b"1")
    before = store.compacted
    assert await compactor.turn()
    assert store.compacted == before
    record = store.get(ROUND_KEY)
    assert record is not None
    await store.put("a", b"2")
    assert await compactor.turn()
    assert store.compacted == int(record.value)


async def test_of_two_compactors_one_works_until_it_stops(store: Store) -> None:
    one, two = Compactor(store), Compactor(store)
    assert await one.turn()
    assert not await two.turn()
    assert await one.turn()
    assert not await two.turn()
    assert await two.turn()
    assert not await one.turn()


async def test_two_etcd_stores_see_each_other(etcd: Etcd) -> None:
    prefix = f"/{uuid.uuid4().hex}"
    one, two = EtcdStore([etcd.endpoint], prefix), EtcdStore([f"http://{etcd.endpoint}/", etcd.endpoint], prefix)
    await one.open()
    await two.open()
    try:
        watch = two.watch("", two.revision)
        record = await one.put("a", b"1")
        assert await two.sync() >= record.modified
        assert two.get("a") == record
        assert (await take(watch, 1))[0].record == record
        with pytest.raises(Mismatch):
            await two.put("a", b"2", expect=0)
        await two.delete("a")
        with pytest.raises(Mismatch):
            await one.put("a", b"2", expect=record.modified)
        assert one.get("a") is None
    finally:
        await one.close()
        await two.close()


async def test_etcd_sync_passes_revisions_of_foreign_keys(etcd: Etcd) -> None:
    mine, other = (EtcdStore([etcd.endpoint], prefix=f"/{uuid.uuid4().hex}") for _ in range(2))
    await mine.open()
    await other.open()
    try:
        foreign = await other.put("a", b"1")
        assert await mine.sync() >= foreign.modified
        assert mine.scan("") == [] and other.count("") == 1
    finally:
        await mine.close()
        await other.close()


async def test_an_etcd_store_opens_over_many_records(etcd: Etcd) -> None:
    prefix = f"/{uuid.uuid4().hex}"
    one, two = EtcdStore([etcd.endpoint], prefix), EtcdStore([etcd.endpoint], prefix)
    await one.open()
    await asyncio.gather(*(one.put(f"k/{number:04}", b"v") for number in range(1100)))
    await two.open()
    assert two.scan("") == one.scan("") and two.count("k/") == 1100
    await one.close()
    await two.close()


async def test_an_etcd_store_survives_a_restart_of_etcd(own_etcd: Etcd) -> None:
    store = EtcdStore([own_etcd.endpoint], timeout_s=2)
    await store.open()
    try:
        before = await store.put("a", b"1")
        watch = store.watch("", store.revision)
        own_etcd.kill()
        with pytest.raises(Unavailable):
            await store.put("a", b"2")
        assert store.get("a") == before
        own_etcd.start()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with contextlib.suppress(Unavailable):
                    after = await store.put("b", b"1")
                    break
                await asyncio.sleep(0.05)
        changes = await take(watch, 1)
        while changes[-1].key != "b":  # the rejected write may have reached etcd all the same
            changes += await take(watch, 1)
        assert changes[-1].record is not None and changes[-1].record.created <= after.modified
    finally:
        await store.close()


class Cable:
    """A TCP connection to etcd that a test can interrupt."""

    def __init__(self, endpoint: str) -> None:
        self.target = endpoint.rsplit(":", 1)
        self.plugged = True
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Cable:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.endpoint = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.pull()

    def pull(self) -> None:
        self.plugged = False
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.plugged:
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection(self.target[0], int(self.target[1]))
        self._writers += [writer, far_writer]
        await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))

    @staticmethod
    async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()


@pytest.mark.parametrize("compact", [False, True])
async def test_an_etcd_store_that_was_cut_off_catches_up(etcd: Etcd, compact: bool) -> None:
    prefix = f"/{uuid.uuid4().hex}"
    async with Cable(etcd.endpoint) as cable:
        far, near = EtcdStore([cable.endpoint], prefix), EtcdStore([etcd.endpoint], prefix)
        await near.open()
        await far.open()
        await near.put("gone", b"1")
        await far.sync()
        watch, started = far.watch("", far.revision), far.revision
        cable.pull()
        await near.delete("gone")
        await near.put("a", b"1")
        last = await near.put("a", b"2")
        assert far.get("gone") is not None
        if compact:
            await near.compact(last.modified)
        cable.plugged = True
        assert await far.wait_for(last.modified, PATIENCE_S)
        assert far.scan("") == near.scan("") == [last]
        if compact:  # the events in between are lost, so the watch must end
            with pytest.raises(Lagging):
                await watch.next()
            with pytest.raises(Compacted):
                far.watch("", started)
        else:
            assert [change.key for change in await take(watch, 3)] == ["gone", "a", "a"]
        await far.close()
        await near.close()


async def test_an_unreachable_etcd_is_said_so() -> None:
    store = EtcdStore([f"127.0.0.1:{free_port()}"], open_timeout_s=0.3)
    with pytest.raises(Unavailable, match="etcd"):
        await store.open()
