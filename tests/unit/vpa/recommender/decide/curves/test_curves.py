"""The usage of containers, slot by slot."""

from __future__ import annotations

import numpy as np
import pytest

from podfit.vpa.history.base import NONE
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.curves.codes import BadCurve
from podfit.vpa.recommender.decide.curves.curves import DAY, SLOT_S, CurveKey, Curves, slot_of
from podfit.vpa.recommender.decide.fleet.fleet import Fleet

FIRST = 6_000_000
START = FIRST * SLOT_S
WEB = CurveKey(("ns", "web"), "app")


class Recorded:
    """Curves of one container with some pods, whose samples go to one row."""

    def __init__(self, pods: int = 1) -> None:
        self.fleet = Fleet(Config())
        self.row = self.fleet.new_row()
        self.handles = [self.fleet.new_handle(self.row) for _ in range(pods)]
        self.curves = Curves(self.fleet)
        self.curves.keep({WEB: [self.row]})

    def take(self, *samples: tuple[int, float, int, int]) -> None:
        """Pod, seconds after the start, millicores and bytes."""
        pods, seconds, cpu, memory = (np.array(column) for column in zip(*samples, strict=True))
        handles = np.array(self.handles, np.int64)[pods.astype(np.int64)]
        self.curves.take(handles, START + seconds, cpu.astype(np.int64), memory.astype(np.int64))

    def usage(self, resource: str, slots: int = 3) -> list[float]:
        self.curves.settle(FIRST + slots)
        number = np.array([self.curves.numbers[WEB]])
        return [float(item) for item in self.curves.usage(number, FIRST, FIRST + slots, resource)[0]]


def near(*amounts: float) -> object:
    return pytest.approx(list(amounts), rel=0.001, nan_ok=True)


def test_a_slot_has_the_mean_of_cpu_and_the_highest_memory() -> None:
    one = Recorded()
    one.take((0, 0, 100, 10**8), (0, 60, 300, 10**9), (0, 120, 200, 10**8))
    assert one.usage("cpu") == near(0.2, np.nan, np.nan) and one.usage("memory") == near(1e9, np.nan, np.nan)


def test_of_several_pods_the_one_that_used_most_counts() -> None:
    one = Recorded(pods=2)
    one.take((0, 0, 100, 10**9), (1, 0, 400, 10**8))
    assert one.usage("cpu") == near(0.4, np.nan, np.nan) and one.usage("memory") == near(1e9, np.nan, np.nan)


def test_a_sample_may_lack_a_resource() -> None:
    one = Recorded()
    one.take((0, 0, 100, NONE), (0, SLOT_S, NONE, 10**8))
    assert one.usage("cpu") == near(0.1, np.nan, np.nan) and one.usage("memory") == near(np.nan, 1e8, np.nan)


def test_a_sample_of_a_slot_that_has_ended_comes_too_late() -> None:
    one = Recorded()
    one.take((0, SLOT_S, 100, 10**8))
    one.take((0, 0, 900, 10**9))
    assert one.usage("cpu") == near(np.nan, 0.1, np.nan)


def test_a_kill_counts_as_memory_of_its_slot() -> None:
    one = Recorded()
    one.take((0, 0, 100, 10**8))
    assert one.curves.killed(one.row, slot_of(START), 10**9) == [one.curves.numbers[WEB]]
    assert one.usage("memory") == near(1e9, np.nan, np.nan)


def test_a_window_begins_whole_days_before_and_not_after_the_first_sample() -> None:
    one = Recorded()
    one.take((0, 0, 100, 10**8))
    one.curves.settle(FIRST + 1)
    number = np.array([one.curves.numbers[WEB]])
    [begin] = one.curves.begins(number, FIRST + 10).tolist()
    assert FIRST - DAY < begin <= FIRST and (begin - int(one.curves.phase[number[0]])) % DAY == 0


def test_a_saved_curve_is_read_back_without_what_lies_in_the_future() -> None:
    one, later = Recorded(), Recorded()
    one.take((0, 0, 100, 10**8), (0, SLOT_S, 200, 10**8))
    one.curves.settle(FIRST + 2)
    text = one.curves.saved(WEB)
    later.curves.restore(WEB, text, FIRST)
    assert later.usage("cpu") == near(0.1, np.nan, np.nan)
    with pytest.raises(BadCurve):
        later.curves.restore(WEB, "no curve", FIRST)
    assert Recorded().curves.saved(WEB) == ""


def test_a_dropped_curve_is_forgotten() -> None:
    one = Recorded()
    one.take((0, 0, 100, 10**8))
    one.curves.settle(FIRST + 1)
    one.curves.keep({})
    assert not one.curves.numbers and one.curves.saved(WEB) == ""
    one.curves.keep({WEB: [one.row]})
    assert np.isnan(one.usage("cpu")).all()
