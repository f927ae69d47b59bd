"""Runs policies on curves, and names the policies that return no sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.policies.base import Costs, UsageSeries
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.curves.curves import DAY, SLOT_S, CurveKey, Curves
from podfit.vpa.recommender.decide.curves.sizing import PolicySizes, sized
from podfit.vpa.recommender.decide.fleet.fleet import Fleet

FIRST = 6_000_000
Sizes = NDArray[np.floating]


class Given:
    """A policy that returns a function of the usage."""

    name = "given"

    def __init__(self, answer: Callable[[UsageSeries], Sizes]) -> None:
        self._answer = answer

    def sizes(self, series: UsageSeries, costs: Costs) -> Sizes:
        return self._answer(series)


def curves(*millicores: int) -> Curves:
    """A container for each amount, used for a day."""
    fleet = Fleet(Config())
    keys = [CurveKey(("ns", "web"), f"c{number}") for number in range(len(millicores))]
    rows = [fleet.new_row() for _ in keys]
    handles = np.array([fleet.new_handle(row) for row in rows])
    made = Curves(fleet)
    made.keep({key: [row] for key, row in zip(keys, rows, strict=True)})
    for slot in range(FIRST, FIRST + DAY):
        made.take(handles, np.full(len(keys), slot * SLOT_S), np.array(millicores), np.full(len(keys), 10**8))
    made.settle(FIRST + DAY)
    return made


def run(made: Curves, answer: Callable[[UsageSeries], Sizes]) -> list[PolicySizes]:
    wanted = np.array(sorted(made.numbers.values()), np.int64)
    found = sized(made, Given(answer), wanted, FIRST + DAY, Costs())
    return [found[number] for number in wanted.tolist()]


def twice(series: UsageSeries) -> Sizes:
    """Twice the highest usage of the container, from the first sample on."""
    return np.repeat(2 * np.nanmax(series.usage, axis=1, keepdims=True), series.usage.shape[1], axis=1)


def test_the_size_in_force_is_that_after_the_last_sample() -> None:
    one, other = run(curves(100, 400), twice)
    assert (round(one.size["cpu"], 2), round(other.size["cpu"], 2)) == (0.2, 0.8)
    assert one.quality.keys() == {"cpu", "memory"} and not one.failed


def test_a_container_on_which_a_policy_fails_costs_the_others_nothing() -> None:
    def fails(series: UsageSeries) -> Sizes:
        if series.resource == "cpu" and (series.usage > 0.3).any():
            raise ZeroDivisionError("no such luck")
        return twice(series)

    one, other = run(curves(100, 400), fails)
    assert one.size and not one.failed
    assert other == PolicySizes({}, {}, "policy given failed: ZeroDivisionError: no such luck")


def test_an_invalid_size_is_named() -> None:
    def nothing(series: UsageSeries) -> Sizes:
        return np.full(series.usage.shape, np.nan)

    def absurd(series: UsageSeries) -> Sizes:
        return np.full(series.usage.shape, 1e7 if series.resource == "cpu" else 1e9)

    assert run(curves(100), nothing)[0].failed == "policy given returned no size of cpu"
    assert run(curves(100), absurd)[0].failed == "policy given returned 1e+07 as a size of cpu"


def test_a_curve_without_a_sample_is_left_out() -> None:
    made = curves(100)
    made.keep({CurveKey(("ns", "web"), "c0"): [0], CurveKey(("ns", "web"), "fresh"): [1]})
    found = sized(made, Given(twice), np.array(sorted(made.numbers.values())), FIRST + DAY, Costs())
    assert len(made.numbers) == 2 and len(found) == 1
