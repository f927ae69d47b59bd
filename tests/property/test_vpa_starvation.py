"""Starved containers: what any sequence of samples makes of a recommendation."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.evidence.starvation import (
    GAP_S,
    LATELY_S,
    SUSTAINED_S,
    LimitSample,
    Need,
    Starved,
    raised,
)
from podfit.vpa.recommender.decide.histograms.estimate import Estimate, with_margin

CONFIG = Config()
AMOUNT = st.integers(0, 10**6)
SIZES = st.tuples(AMOUNT, AMOUNT, AMOUNT).map(lambda found: sorted(found))


@given(SIZES, AMOUNT, AMOUNT)
def test_a_need_lowers_nothing_and_keeps_the_order_of_the_bounds(sizes: list[int], bound: int, lately: int) -> None:
    lower, target, upper = ({"cpu": size, "memory": size} for size in sizes)
    found = raised(Estimate(target, lower, upper), Need(bound, lately), CONFIG)
    assert found.lower["cpu"] <= found.target["cpu"] <= found.upper["cpu"]
    for before, after in ((target, found.target), (lower, found.lower), (upper, found.upper)):
        assert after["cpu"] >= before["cpu"]
        assert after["memory"] == before["memory"]


@given(SIZES, st.integers(20, 10**6))
def test_a_limit_that_is_used_up_lies_below_the_bounds(sizes: list[int], limit: int) -> None:
    lower, target, upper = ({"cpu": size} for size in sizes)
    found = raised(Estimate(target, lower, upper), Need(limit, 0), CONFIG)
    assert limit < found.lower["cpu"]
    assert found.target["cpu"] >= 4 * limit


@given(SIZES)
def test_without_a_need_every_number_stays(sizes: list[int]) -> None:
    lower, target, upper = ({"cpu": size} for size in sizes)
    assert raised(Estimate(target, lower, upper), Need(), CONFIG) == Estimate(target, lower, upper)


@given(st.lists(st.tuples(st.integers(0, 3), AMOUNT, st.booleans()), min_size=1, max_size=200))
def test_only_what_is_starved_now_and_used_lately_counts(samples: list[tuple[int, int, bool]]) -> None:
    state, latest = Starved(), {}
    for minute, (handle, amount, at_limit) in enumerate(samples):
        state.note(LimitSample(handle, minute * 60.0, amount, amount, amount, at_limit))
        latest[handle] = (minute * 60.0, amount, at_limit)
    now = (len(samples) - 1) * 60.0
    starved = [amount for at, amount, at_limit in latest.values() if at_limit and now - at <= GAP_S]
    assert state.lower_bound(sustained=False) == max(starved, default=0)
    used = [amount for minute, (_, amount, at) in enumerate(samples) if not at and now - minute * 60.0 <= LATELY_S]
    assert state.used_lately(1.0) == (max(used, default=0) if any(at for *_, at in samples) else 0)
    assert with_margin(state.used_lately(0.9), 0.15) <= with_margin(max(used, default=0), 0.15)


bursts = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 2000), st.booleans(), st.integers(0, 3)), min_size=1, max_size=120
)


@given(bursts)
def test_bursts_count_when_they_are_throttled_for_a_while_and_stay_above_what_was_too_little(samples: Any) -> None:
    state, now = Starved(), 0.0
    for handle, given_millicores, throttled, minutes in samples:
        now += minutes * 60.0
        state.note(LimitSample(handle, now, 10, 3000, given_millicores, False, throttled))
        assert state.lower_bound(sustained=False) == 0 and state.used_lately(1.0) == 0
        assert state.bursts() <= state.too_little
        assert state.sufficed == 0 or state.sufficed > state.too_little
        held = [item for item in state.throttled.values() if item.last - item.since >= SUSTAINED_S]
        assert state.bursts() == max((item.millicores for item in held), default=0)
        assert (handle in state.throttled) == throttled


@given(SIZES, AMOUNT, AMOUNT)
def test_throttled_bursts_lower_nothing_and_lie_below_the_bounds(sizes: list[int], given_now: int, enough: int) -> None:
    lower, target, upper = ({"cpu": size, "memory": size} for size in sizes)
    found = raised(Estimate(target, lower, upper), Need(bursts=given_now, sufficed=enough), CONFIG)
    assert found.lower["cpu"] <= found.target["cpu"] <= found.upper["cpu"]
    assert found.target["cpu"] >= max(target["cpu"], enough, given_now)
    assert given_now < 20 or found.lower["cpu"] > given_now
    assert found.lower["cpu"] >= lower["cpu"] and found.upper["cpu"] >= upper["cpu"]
