"""The numbers of a report: capacity, the served share of demand, days, changes, and fragmentation of free capacity."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.scenarios import HOUR, MIB, a_scenario, a_workload, level

from podfit.sim.report.tally import UPDATER, Sample, Tally, fragmentation
from podfit.sim.run import simulate
from podfit.sim.scenario.model import Size

ALL = np.ones(2, np.bool_)
NONE = np.zeros(2, np.bool_)


def a_tally(steps: int = 2) -> Tally:
    scenario = a_scenario(a_workload("one"), a_workload("two"), duration_s=steps * 300.0)
    return Tally(scenario, np.array([0, 1]))


def cpu(demand: list[float], got: list[float], request: list[float], ran: list[bool] | None = None) -> Sample:
    short = np.array(got) < np.array(demand)
    sampled = ALL if ran is None else np.array(ran)
    return Sample("cpu", sampled, np.array(demand), np.array(got), np.array(request), short)


def test_slack_is_what_lies_idle_and_cut_off_what_was_not_served() -> None:
    tally = a_tally()
    tally.sample(0, cpu([1.0, 4.0], [1.0, 2.0], [2.0, 2.0]))
    first, second = tally.quality("cpu", 0), tally.quality("cpu", 1)
    assert (first.slack, first.cut, first.short) == (0.5, 0.0, 0.0)
    assert (second.slack, second.cut, second.short) == (0.0, 0.5, 1.0)


def test_usage_above_the_request_is_capacity_that_was_given() -> None:
    tally = a_tally()
    tally.sample(0, cpu([3.0, 3.0], [3.0, 3.0], [2.0, 2.0]))
    total = tally.quality("cpu")
    assert (total.slack, total.cut) == (0.0, 0.0)


def test_pods_that_did_not_run_are_not_sampled() -> None:
    tally = a_tally()
    tally.sample(0, cpu([1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [True, False]))
    assert [tally.quality("cpu", at).samples for at in (0, 1)] == [1, 0]


def test_changes_above_five_percent_count() -> None:
    tally = a_tally()
    tally.sample(0, cpu([1.0, 1.0], [1.0, 1.0], [1.0, 1.0]))
    tally.sample(1, cpu([1.0, 1.0], [1.0, 1.0], [1.04, 1.2]))
    assert [tally.quality("cpu", at).changes for at in (0, 1)] == [0, 1]
    assert tally.quality("cpu").days == 2


def test_evictions_are_restarts_and_counted_by_cause() -> None:
    tally = a_tally()
    tally.evicted(np.array([0, 1]), UPDATER)
    tally.killed(np.array([1]))
    assert tally.evictions[UPDATER].tolist() == [1, 1]
    assert tally.restarts.tolist() == [1, 2] and tally.kills.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        ([4, 4], [4, 4], 0.0),
        ([1, 1, 1, 1], [9, 9, 9, 9], 1.0),
        ([8, 0], [0, 8], 1.0),
        ([2, 3, 3], [2, 2, 2], 0.0),
        ([3, 3], [3, 3], 1 - 2 / 3),
        ([0], [0], 0.0),
    ],
)
def test_fragmentation_is_the_free_room_that_pods_of_two_and_two_cannot_use(
    cpu: list[int], memory: list[int], expected: float
) -> None:
    assert fragmentation(np.array(cpu), np.array(memory), 2.0, 2.0) == pytest.approx(expected)


def test_a_calm_cluster_is_reported_as_such() -> None:
    calm = a_workload(cpu=400, limits=Size(400, 512 * MIB), cpu_curve=level(0.2), memory_curve=level(256.0 * MIB))
    tally = simulate(a_scenario(calm, duration_s=2 * HOUR)).tally
    for resource in ("cpu", "memory"):
        quality = tally.quality(resource)
        assert (quality.slack, quality.cut, quality.changes, quality.samples) == (pytest.approx(0.5), 0.0, 0, 24)
    assert tally.allocated["cpu"] == [pytest.approx(400 / 8000)] * 24
