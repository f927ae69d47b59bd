"""The seats of a server, divided among levels."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podfit.apiserver.flows.borrowing import Bounds, Demand, bounds, limits
from podfit.apiserver.strategy.flows.mandatory import defaults

LEVELS = {row["metadata"]["name"]: row["spec"] for row in defaults() if row["kind"] == "PriorityLevelConfiguration"}


def test_the_default_levels_have_the_nominal_limits_of_kubernetes() -> None:
    nominal = {name: found.nominal for name, found in bounds(LEVELS, 600).items()}
    assert nominal == {
        "catch-all": 13, "exempt": 0, "global-default": 49, "leader-election": 25, "node-high": 98, "system": 74,
        "workload-high": 98, "workload-low": 245,
    }  # fmt: skip


@st.composite
def levels(draw: st.DrawFn) -> tuple[dict[str, Bounds], dict[str, Demand]]:
    found, demands = {}, {}
    for number in range(draw(st.integers(1, 8))):
        nominal = draw(st.integers(1, 200))
        least = nominal - draw(st.integers(0, nominal))
        found[str(number)] = Bounds(nominal, least, nominal + draw(st.integers(0, 600)))
        demand = demands[str(number)] = Demand()
        high = draw(st.integers(0, 400))
        demand.observe(high, high / 2, high / 10)
    return found, demands


@given(levels())
def test_no_level_falls_below_what_it_never_lends_or_rises_above_what_it_may_borrow(
    case: tuple[dict[str, Bounds], dict[str, Demand]],
) -> None:
    found = limits(*case)
    assert all(level.least <= found[name] <= level.most for name, level in case[0].items())


@given(levels())
def test_levels_never_have_more_seats_than_the_server_but_for_rounding(
    case: tuple[dict[str, Bounds], dict[str, Demand]],
) -> None:
    assert sum(limits(*case).values()) <= sum(level.nominal for level in case[0].values()) + len(case[0])


@given(levels())
def test_a_level_that_used_its_own_seats_keeps_them(case: tuple[dict[str, Bounds], dict[str, Demand]]) -> None:
    found = limits(*case)
    assert all(found[name] >= min(level.nominal, case[1][name].high) for name, level in case[0].items())


def test_a_level_in_need_borrows_what_others_do_not_use() -> None:
    demands = {name: Demand() for name in LEVELS}
    demands["workload-low"].observe(400, 400, 0)
    found = limits(bounds(LEVELS, 600), demands)
    assert found["workload-low"] > 245


def test_demand_falls_slowly() -> None:
    demand = Demand()
    demand.observe(100, 100, 0)
    demand.observe(0, 0, 0)
    assert 90 < demand.smoothed < 100
