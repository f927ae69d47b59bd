"""The seats of a server, divided among levels."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podfit.apiserver.flows.borrowing import Demand, LevelBounds, bounds, divide
from podfit.apiserver.strategy.flows.mandatory import defaults

LEVELS = {row["metadata"]["name"]: row["spec"] for row in defaults() if row["kind"] == "PriorityLevelConfiguration"}


def test_the_default_levels_have_the_nominal_limits_of_kubernetes() -> None:
    nominal = {name: found.nominal for name, found in bounds(LEVELS, 600).items()}
    assert nominal == {
        "catch-all": 13, "exempt": 0, "global-default": 49, "leader-election": 25, "node-high": 98, "system": 74,
        "workload-high": 98, "workload-low": 245,
    }  # fmt: skip


def test_halves_of_seats_are_rounded_up_as_in_kubernetes() -> None:
    least = {name: found.least for name, found in bounds(LEVELS, 600).items()}
    assert least == {
        "catch-all": 13, "exempt": 0, "global-default": 24, "leader-election": 25, "node-high": 73, "system": 50,
        "workload-high": 49, "workload-low": 24,
    }  # fmt: skip


def test_idle_levels_share_all_seats_in_proportion_to_what_they_keep() -> None:
    division = divide(bounds(LEVELS, 600), {name: Demand() for name in LEVELS})
    assert abs(sum(division.limits.values()) - 602) <= len(LEVELS)
    assert division.limits["node-high"] == round(73 * division.fair)


@st.composite
def levels(draw: st.DrawFn) -> tuple[dict[str, LevelBounds], dict[str, Demand]]:
    found, demands = {}, {}
    for number in range(draw(st.integers(1, 8))):
        nominal = draw(st.integers(1, 200))
        least = nominal - draw(st.integers(0, nominal))
        found[str(number)] = LevelBounds(nominal, least, nominal + draw(st.integers(0, 600)))
        demand = demands[str(number)] = Demand()
        high = draw(st.integers(0, 400))
        demand.observe(high, high / 2, high / 10)
    return found, demands


@given(levels())
def test_no_level_falls_below_what_it_never_lends_or_rises_above_what_it_may_borrow(
    case: tuple[dict[str, LevelBounds], dict[str, Demand]],
) -> None:
    found = divide(*case).limits
    assert all(level.least <= found[name] <= level.most for name, level in case[0].items())


@given(levels())
def test_levels_never_have_more_seats_than_the_server_but_for_rounding(
    case: tuple[dict[str, LevelBounds], dict[str, Demand]],
) -> None:
    assert sum(divide(*case).limits.values()) <= sum(level.nominal for level in case[0].values()) + len(case[0])


@given(levels())
def test_a_level_that_used_its_own_seats_keeps_them(case: tuple[dict[str, LevelBounds], dict[str, Demand]]) -> None:
    found = divide(*case).limits
    assert all(found[name] >= min(level.nominal, case[1][name].high) for name, level in case[0].items())


def test_a_level_in_need_borrows_what_others_do_not_use() -> None:
    demands = {name: Demand() for name in LEVELS}
    demands["workload-low"].observe(400, 400, 0)
    found = divide(bounds(LEVELS, 600), demands).limits
    assert found["workload-low"] > 245


def test_demand_falls_slowly() -> None:
    demand = Demand()
    demand.observe(100, 100, 0)
    demand.observe(0, 0, 0)
    assert 90 < demand.smoothed < 100
