"""The history in a local file: samples are returned in order, thinned to one a minute, for as long as they are kept."""

from __future__ import annotations

import asyncio
import sqlite3
import zlib
from pathlib import Path

import numpy as np
import pytest
from tests.support.servers.histories import Gathered

from podfit.kit.clock import FakeClock
from podfit.vpa.history.base import NONE, Batch, HistoryUnavailable, Series
from podfit.vpa.history.local import LocalHistory
from podfit.vpa.recommender.decide.evidence.oom import Oom

WEB = Series("default", "web-1", "main", "app=web")
DB = Series("default", "db-1", "main", "app=db")


def batch(*rows: tuple[Series, float, int, int], ooms: tuple[Oom, ...] = ()) -> Batch:
    series = list(dict.fromkeys(row[0] for row in rows))
    return Batch(
        series,
        np.array([series.index(row[0]) for row in rows], np.int64),
        np.array([row[1] for row in rows], np.float64),
        np.array([row[2] for row in rows], np.int64),
        np.array([row[3] for row in rows], np.int64),
        ooms,
    )


async def loaded(file: Path, clock: FakeClock) -> Gathered:
    history, sink = LocalHistory(file, clock=clock), Gathered()
    await history.load(sink, clock.now() + 1)
    await history.close()
    return sink


async def test_records_survive_a_restart(tmp_path: Path) -> None:
    clock = FakeClock()
    history = LocalHistory(tmp_path / "h.db", clock=clock)
    start = clock.now()
    for minute in range(5):
        at = start + 60 * minute
        oom = (Oom("default", "web-1", "main", at, 7),) if minute == 3 else ()
        history.record(batch((WEB, at, 100 + minute, 10**9), (DB, at, 5, NONE), ooms=oom))
        await clock.advance(60)
        await history.flush()
    await history.close()
    sink = await loaded(tmp_path / "h.db", clock)
    assert [row for row in sink.rows if row[0] == WEB] == [(WEB, start + 60 * n, 100 + n, 10**9) for n in range(5)]
    assert {row[3] for row in sink.rows if row[0] == DB} == {NONE}
    assert sink.ooms == [Oom("default", "web-1", "main", start + 180, 7)]


async def test_series_keep_their_identity_over_restarts(tmp_path: Path) -> None:
    clock = FakeClock()
    for who in (WEB, DB, WEB):
        history = LocalHistory(tmp_path / "h.db", clock=clock)
        history.record(batch((who, clock.now(), 1, 1)))
        await clock.advance(120)
        await history.close()
    assert [row[0] for row in (await loaded(tmp_path / "h.db", clock)).rows] == [WEB, DB, WEB]


async def test_a_minute_keeps_the_mean_of_cpu_and_the_peak_of_memory(tmp_path: Path) -> None:
    clock = FakeClock(1_700_000_040.0)
    history = LocalHistory(tmp_path / "h.db", clock=clock)
    for second in range(0, 60, 10):
        history.record(batch((WEB, clock.now() + second, second, 1000 - second)))
    await clock.advance(120)
    await history.close()
    [(_, at, cpu, memory)] = (await loaded(tmp_path / "h.db", clock)).rows
    assert (at, cpu, memory) == (1_700_000_090.0, 25, 1000)


async def test_old_rows_are_dropped(tmp_path: Path) -> None:
    clock = FakeClock()
    history = LocalHistory(tmp_path / "h.db", clock=clock)
    history.record(batch((WEB, clock.now(), 1, 1)))
    await clock.advance(60)
    await history.flush()
    await clock.advance(10 * 86400)
    history.record(batch((WEB, clock.now(), 2, 2)))
    await history.close()
    assert [row[2] for row in (await loaded(tmp_path / "h.db", clock)).rows] == [2]


def series_in(file: Path) -> set[str]:
    db = sqlite3.connect(file)
    try:
        return {pod for (pod,) in db.execute("SELECT pod FROM series")}
    finally:
        db.close()


@pytest.mark.parametrize("restarted", [True, False])
async def test_series_of_pods_long_gone_are_dropped(tmp_path: Path, restarted: bool) -> None:
    clock = FakeClock()
    history = LocalHistory(tmp_path / "h.db", clock=clock)
    await history.load(Gathered(), clock.now())
    history.record(batch((WEB, clock.now(), 1, 1), (DB, clock.now(), 1, 1)))
    for _ in range(6):
        await clock.advance(2 * 86400)
        history.record(batch((DB, clock.now(), 2, 2)))
        await history.flush()
        if restarted:
            await history.close()
            history = LocalHistory(tmp_path / "h.db", clock=clock)
            await history.load(Gathered(), clock.now() + 1)
    assert series_in(tmp_path / "h.db") == {"db-1"}
    history.record(batch((WEB, clock.now(), 3, 3)))
    await history.close()
    rows = (await loaded(tmp_path / "h.db", clock)).rows
    assert {row[0] for row in rows} == {WEB, DB} and [row[2] for row in rows if row[0] == WEB] == [3]


async def test_a_file_that_is_not_a_history_makes_room_for_a_new_one(tmp_path: Path) -> None:
    rubbish = b"not a database, but long enough to be read as one" * 50
    (tmp_path / "h.db").write_bytes(rubbish)
    clock = FakeClock()
    history = LocalHistory(tmp_path / "h.db", clock=clock)
    await history.load(Gathered(), 1.0)
    history.record(batch((WEB, clock.now(), 1, 1)))
    await history.close()
    assert (tmp_path / "h.db.damaged").read_bytes() == rubbish
    assert [row[0] for row in (await loaded(tmp_path / "h.db", clock)).rows] == [WEB]


async def test_a_file_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    (tmp_path / "h.db").mkdir()
    with pytest.raises(HistoryUnavailable, match=r"h\.db"):
        await LocalHistory(tmp_path / "h.db").load(Gathered(), 1.0)


@pytest.mark.parametrize("damage", [b"rubbish", zlib.compress(b"short"), None])
async def test_a_damaged_row_costs_only_itself(tmp_path: Path, damage: bytes | None) -> None:
    clock = FakeClock()
    history = LocalHistory(tmp_path / "h.db", clock=clock)
    for minute in range(3):
        history.record(batch((WEB, clock.now(), minute, 1)))
        await clock.advance(60)
        await history.flush()
    await history.close()
    with sqlite3.connect(tmp_path / "h.db") as db:
        db.execute("UPDATE rows SET columns = ? WHERE rowid = 2", (damage,))
    db.close()
    assert [row[2] for row in (await loaded(tmp_path / "h.db", clock)).rows] == [0, 2]


async def test_a_closed_history_leaves_one_whole_file(tmp_path: Path) -> None:
    clock = FakeClock()
    history = LocalHistory(tmp_path / "h.db", clock=clock)
    history.record(batch((WEB, clock.now(), 1, 1)))
    writing = asyncio.ensure_future(history.flush())
    await asyncio.sleep(0)
    writing.cancel()
    await history.close()
    assert [file.name for file in tmp_path.iterdir()] == ["h.db"]
