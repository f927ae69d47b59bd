"""Target, lower and upper bound of a container."""

from __future__ import annotations

import math

import pytest

from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState
from podfit.vpa.recommender.decide.histograms.estimate import (
    LOWER,
    UPPER,
    Estimate,
    confidence,
    estimate,
    estimate_all,
    minimums,
    restricted,
    widening,
    with_margin,
)

START, DAY_S, MINUTES = 1_700_000_000.0, 86400.0, 1440


def watched(days: int, cpu: int = 1000, memory: int = 10**9) -> AggregateState:
    made = AggregateState(Config())
    for minute in range(days * MINUTES + 1):
        made.add_cpu(cpu, START + 60.0 * minute)
    made.add_peak(memory, START)
    return made


@pytest.mark.parametrize(
    ("minutes", "count", "expected"), [(MINUTES, MINUTES, 1.0), (MINUTES, MINUTES // 2, 0.5), (MINUTES // 2, 9999, 0.5)]
)
def test_confidence_is_the_smaller_of_time_and_samples(minutes: int, count: int, expected: float) -> None:
    assert confidence(START, START + 60.0 * minutes, count, DAY_S) == expected


def test_without_confidence_the_upper_bound_is_infinite_and_the_lower_one_nothing() -> None:
    assert widening(0.0, *UPPER) == math.inf and widening(0.0, *LOWER) == 0.0
    assert widening(1.0, *UPPER) == 2.0 and widening(1.0, *LOWER) == pytest.approx(0.998, abs=1e-4)


def test_a_margin_is_a_part_of_the_amount() -> None:
    assert with_margin(1000, 0.15) == 1150


def test_the_smallest_pod_is_divided_among_its_containers() -> None:
    assert minimums(Config(), 1) == {"cpu": 25, "memory": 250 << 20}
    assert minimums(Config(), 2) == {"cpu": 12, "memory": 125 << 20}


def test_sizes_are_percentiles_with_a_margin_between_bounds() -> None:
    made = watched(1)
    found = estimate(made, Config(), minimums(Config(), 1))
    bucket = int(made.cpu.percentile(0.9) * 1000)
    assert found.target["cpu"] == with_margin(bucket, 0.15)
    assert found.lower["cpu"] < found.target["cpu"] < found.upper["cpu"]
    assert found.upper["cpu"] == pytest.approx(2 * found.target["cpu"], rel=0.01)


def test_bounds_come_closer_with_time_and_a_given_confidence_takes_its_place() -> None:
    least = minimums(Config(), 1)
    young, old = estimate(watched(1), Config(), least), estimate(watched(4), Config(), least)
    assert old.upper["cpu"] < young.upper["cpu"] and old.lower["cpu"] > young.lower["cpu"]
    assert estimate(watched(4), Config(), least, given_trust=1.0).upper["cpu"] == young.upper["cpu"]


def test_no_size_is_below_the_smallest_pod() -> None:
    found = estimate(watched(1, cpu=1, memory=1), Config(), minimums(Config(), 1))
    assert found.target == {"cpu": 25, "memory": 250 << 20} and found.lower == found.target


def test_a_container_without_samples_takes_its_share_of_the_smallest_pod_and_gets_no_size() -> None:
    found = estimate_all({"app": watched(1, cpu=1, memory=1), "fresh": AggregateState(Config())}, Config())
    assert found.keys() == {"app"} and found["app"].target == {"cpu": 12, "memory": 125 << 20}
    assert estimate_all({}, Config()) == {}


def test_sizes_of_some_resources_alone() -> None:
    both = {"cpu": 1, "memory": 2}
    assert restricted(Estimate(both, both, both), ["memory", "gpu"]) == Estimate(
        {"memory": 2}, {"memory": 2}, {"memory": 2}
    )
