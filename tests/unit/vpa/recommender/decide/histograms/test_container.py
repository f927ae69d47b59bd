"""Which samples of a container count, and its memory peak of each window."""

from __future__ import annotations

import pytest

from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState
from podfit.vpa.recommender.decide.histograms.container import ContainerState, OomRefused

START = 1_700_000_000.0
DAY_S = 86400.0
GB = 10**9


class Watched:
    """A container with its aggregate."""

    def __init__(self, config: Config | None = None) -> None:
        self.aggregate, self.state = AggregateState(config or Config()), ContainerState()

    def cpu(self, millicores: int, instant: float) -> bool:
        return self.state.add_cpu(self.aggregate, millicores, instant)

    def memory(self, amount: int, instant: float) -> bool:
        return self.state.add_memory(self.aggregate, amount, instant)

    def oom(self, requested: int, instant: float) -> int:
        return self.state.record_oom(self.aggregate, requested, instant)

    @property
    def peaks(self) -> float:
        """The number of peaks with the newest window's weight that the histogram holds."""
        return self.aggregate.memory.total


def test_repeated_late_and_negative_samples_are_refused() -> None:
    one = Watched()
    assert one.cpu(100, START)
    assert not one.cpu(100, START) and not one.cpu(100, START - 1) and not one.cpu(-1, START + 1)
    assert one.memory(GB, START) and one.memory(GB, START)
    assert not one.memory(GB, START - 1) and not one.memory(-1, START + 1)
    assert one.aggregate.count == 1


def test_of_a_window_only_the_highest_use_of_memory_counts() -> None:
    one, alone = Watched(), Watched()
    for amount, instant in ((GB, START), (3 * GB, START + 60), (2 * GB, START + 120)):
        one.memory(amount, instant)
    alone.memory(3 * GB, START)
    assert one.aggregate.memory.percentile(0.01) == alone.aggregate.memory.percentile(0.99)
    assert one.state.peak == 3 * GB


def test_the_next_window_has_a_peak_of_its_own() -> None:
    one = Watched()
    one.memory(3 * GB, START)
    one.memory(GB, START + 2 * DAY_S)
    assert one.state.peak == GB and one.state.window_end == START + 3 * DAY_S


def test_an_out_of_memory_kill_counts_as_more_than_the_containers_limit() -> None:
    one = Watched()
    assert one.oom(GB, START) == int(1.2 * GB)
    assert one.oom(100, START + 1) == 100 + 100 * 1024 * 1024
    assert one.state.oom_peak > 0


def test_kills_do_not_raise_each_other() -> None:
    one = Watched()
    assert one.oom(GB, START) == one.oom(GB, START + 60)


def test_a_kill_without_any_size_and_one_from_long_ago_are_refused() -> None:
    one = Watched()
    with pytest.raises(OomRefused, match="neither a memory request nor a sample"):
        one.oom(0, START)
    one.memory(GB, START)
    with pytest.raises(OomRefused, match="too old"):
        one.oom(GB, START - 3 * DAY_S)


def test_a_kill_before_the_first_sample_counts_unless_it_is_to_be_missed() -> None:
    one, missing = Watched(), Watched(Config(miss_oom_kills=True))
    for watched in (one, missing):
        watched.memory(0, START)
    assert one.oom(GB, START - 60) == one.state.oom_peak > GB
    with pytest.raises(OomRefused, match="too old"):
        missing.oom(GB, START - 60)
