"""The contract of every history backend of the recommender. Add your own backend to HISTORIES to test it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.servers.histories import Gathered

from podfit.kit.clock import Clock, FakeClock
from podfit.vpa.flags import BadFlag
from podfit.vpa.history import plugged
from podfit.vpa.history.base import NONE, Batch, History, Series
from podfit.vpa.history.local import LocalHistory
from podfit.vpa.history.selected import history_for
from podfit.vpa.recommender.config import RecommenderConfig, recommender_config
from podfit.vpa.recommender.decide.evidence.oom import Oom

WEB, DB = Series("default", "web-1", "main", "app=web"), Series("default", "db-1", "main", "app=db")
Opened = Callable[[Path, Clock], History]


class Kept:
    """A minimal history: flushed samples stay in memory, under a name that outlives the object."""

    writes_checkpoints = False
    keeps_samples = True
    stores: dict[str, list[Batch]] = {}

    def __init__(self, name: str) -> None:
        self._store, self._waiting = self.stores.setdefault(name, []), list[Batch]()

    async def load(self, sink: Any, until: float) -> None:
        for batch in self._store:
            if len(batch.times) and batch.times[-1] < until:
                sink.take(batch)

    def record(self, batch: Batch) -> None:
        self._waiting.append(batch)

    async def flush(self) -> None:
        self._store += self._waiting
        self._waiting = []

    async def close(self) -> None:
        await self.flush()


HISTORIES: dict[str, Opened] = {
    "local": lambda folder, clock: LocalHistory(folder / "h.db", clock=clock),
    "plugged": lambda folder, clock: Kept(str(folder)),
}


def batch(at: float, cpu: int, ooms: tuple[Oom, ...] = ()) -> Batch:
    return Batch([WEB, DB], np.array([0, 1]), np.array([at, at]), np.array([cpu, NONE]), np.array([10**9, 5]), ooms)


async def loaded(history: History, until: float) -> Gathered:
    sink = Gathered()
    await history.load(sink, until)
    await history.close()
    return sink


@pytest.fixture(params=sorted(HISTORIES))
def opened(request: pytest.FixtureRequest) -> Opened:
    return HISTORIES[request.param]


async def test_records_are_returned_in_order_of_time(opened: Opened, tmp_path: Path) -> None:
    clock = FakeClock()
    history, start = opened(tmp_path, clock), clock.now()
    await history.load(Gathered(), start)
    for minute in range(4):
        ooms = (Oom("default", "web-1", "main", start + 60 * minute, 7),) if minute == 2 else ()
        history.record(batch(start + 60 * minute, 100 + minute, ooms))
        await clock.advance(60)
        await history.flush()
    await history.close()
    found = await loaded(opened(tmp_path, clock), clock.now() + 60)
    assert [row[2] for row in found.rows if row[0] == WEB] == [100, 101, 102, 103]
    assert [row[1] for row in found.rows] == sorted(row[1] for row in found.rows)
    assert {row[2:] for row in found.rows if row[0] == DB} == {(NONE, 5)}
    assert [oom.memory for oom in found.ooms] == [7]


async def test_an_empty_history_yields_nothing(opened: Opened, tmp_path: Path) -> None:
    clock = FakeClock()
    found = await loaded(opened(tmp_path, clock), clock.now())
    assert not found.rows and not found.ooms


async def test_samples_that_were_not_flushed_are_written_by_close(opened: Opened, tmp_path: Path) -> None:
    clock = FakeClock()
    history = opened(tmp_path, clock)
    history.record(batch(clock.now(), 100))
    await clock.advance(120)
    await history.close()
    found = await loaded(opened(tmp_path, clock), clock.now() + 60)
    assert [row[2] for row in found.rows if row[0] == WEB] == [100]


def made_by_a_package(config: RecommenderConfig, clock: Clock) -> History:
    return Kept(config.storage)


def brings(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    point = EntryPoint("mine", value, plugged.GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point] if group == plugged.GROUP else [])


def test_a_packages_history_is_chosen_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    brings(monkeypatch, f"{__name__}:made_by_a_package")
    assert isinstance(history_for(recommender_config(["--storage=mine"]), FakeClock()), Kept)


def test_an_unknown_or_unloadable_history_plugin_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadFlag, match='invalid argument "mine" for "--storage"'):
        recommender_config(["--storage=mine"])
    brings(monkeypatch, "no_such_package:history")
    with pytest.raises(BadFlag, match="no_such_package:history cannot be loaded"):
        history_for(recommender_config(["--storage=mine"]), FakeClock())
