"""Out-of-memory kills from counters: which rises count, and which are from before the history."""

from __future__ import annotations

import pytest

from podfit.vpa.history.kills import MOST, KillCounters


def test_a_value_at_the_first_sample_of_the_history_counts_earlier_kills() -> None:
    counters = KillCounters[str]()
    counters.sampled(500.0)
    assert counters.rises("old", [(500.0, 7.0), (800.0, 8.0)]) == [800.0]
    assert counters.rises("new", [(800.0, 2.0)]) == [800.0, 800.0]


def test_kills_during_a_gap_count_only_for_counters_that_were_known() -> None:
    counters = KillCounters[str](begins=0.0)
    counters.rises("known", [(0.0, 1.0)])
    counters.gap()
    counters.sampled(900.0)
    assert counters.rises("known", [(900.0, 2.0)]) == [900.0]
    assert counters.rises("unknown", [(900.0, 5.0), (1200.0, 6.0)]) == [1200.0]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), MOST + 1.0, 1e15])
def test_a_value_that_cannot_be_is_no_kill(value: float) -> None:
    counters = KillCounters[str](begins=0.0)
    assert counters.rises("a", [(300.0, value)]) == []


def test_a_copy_is_independent() -> None:
    counters = KillCounters[str](begins=0.0)
    counters.copy().rises("a", [(300.0, 1.0)])
    assert counters.last == {}
