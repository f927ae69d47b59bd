"""Usage computed from counters: resets, restarts, repeated and late readings, clocks set back."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.numbers import NodeReading, Reading
from podfit.meter.rates import NodeRates, Use, use_of

KEY = ("ns", "p", "c")


def rates() -> NodeRates:
    return NodeRates(fresh_s=30.0)


def reading(node_rates: NodeRates, value: Reading) -> list[tuple[str, str, str]]:
    return node_rates.take(NodeReading(value, {KEY: value}))


def test_two_readings_give_a_rate_over_their_distance() -> None:
    one = rates()
    assert reading(one, Reading(100.0, 10.0, 5.0)) == []
    assert not one.settled
    assert reading(one, Reading(110.0, 15.0, 7.0)) == [KEY]
    assert one.containers == {KEY: Use(0.5, 7.0, 110.0, 10.0)}
    assert one.node == Use(0.5, 7.0, 110.0, 10.0)
    assert one.settled


def test_a_young_container_is_measured_from_its_start() -> None:
    assert use_of(None, Reading(110.0, 5.0, 1.0, started=100.0), 30.0) == Use(0.5, 1.0, 110.0, 10.0)


def test_an_old_container_needs_a_second_reading() -> None:
    assert use_of(None, Reading(1000.0, 5.0, 1.0, started=100.0), 30.0) is None


def test_a_restart_resets_the_rate() -> None:
    one = rates()
    reading(one, Reading(100.0, 10.0, 1.0, started=1.0))
    reading(one, Reading(110.0, 12.0, 1.0, started=1.0))
    reading(one, Reading(120.0, 13.0, 1.0, started=116.0))
    assert one.containers[KEY] == Use(13.0 / 4.0, 1.0, 120.0, 4.0)


def test_a_counter_that_fell_shows_nothing_until_it_grew_again() -> None:
    one = rates()
    reading(one, Reading(100.0, 10.0, 1.0))
    reading(one, Reading(110.0, 20.0, 1.0))
    reading(one, Reading(120.0, 2.0, 1.0))
    assert one.containers == {}
    reading(one, Reading(130.0, 3.0, 1.0))
    assert one.containers[KEY].cores == 0.1


def test_repeated_and_late_readings_change_nothing() -> None:
    one = rates()
    reading(one, Reading(100.0, 10.0, 1.0))
    reading(one, Reading(110.0, 15.0, 1.0))
    before = dict(one.containers)
    assert reading(one, Reading(110.0, 15.0, 1.0)) == []
    assert reading(one, Reading(105.0, 15.0, 1.0)) == []
    assert one.containers == before
    reading(one, Reading(120.0, 20.0, 1.0))
    assert one.containers[KEY] == Use(0.5, 1.0, 120.0, 10.0)


def test_a_clock_that_was_set_back_is_believed() -> None:
    one = rates()
    reading(one, Reading(10_000.0, 10.0, 1.0))
    reading(one, Reading(10_010.0, 15.0, 1.0))
    reading(one, Reading(5_000.0, 16.0, 1.0))
    reading(one, Reading(5_010.0, 17.0, 1.0))
    assert one.containers[KEY] == Use(0.1, 1.0, 5_010.0, 10.0)


def test_a_container_that_is_gone_is_forgotten() -> None:
    one = rates()
    reading(one, Reading(100.0, 10.0, 1.0))
    reading(one, Reading(110.0, 15.0, 1.0))
    one.take(NodeReading(None, {}))
    assert (one.containers, one.placed, one.pod("ns", "p")) == ({}, {}, {})


readings = st.builds(
    Reading,
    st.floats(0, 1e6),
    st.floats(0, 1e6),
    st.floats(0, 1e12),
    st.sampled_from([0.0, 10.0, 500.0]),
)


@given(st.lists(readings, max_size=20))
def test_whatever_is_read_rates_are_finite_and_not_negative(many: list[Reading]) -> None:
    one = rates()
    for value in many:
        reading(one, value)
        for use in (*one.containers.values(), *([one.node] if one.node else [])):
            assert math.isfinite(use.cores)
            assert use.cores >= 0
            assert use.window_s > 0


def test_throttling_is_the_part_of_the_periods_since_the_last_look() -> None:
    one = NodeRates(fresh_s=30.0)
    reading(one, Reading(100.0, 10.0, 1.0, periods=1000, throttled_periods=900))
    reading(one, Reading(110.0, 11.0, 1.0, periods=1100, throttled_periods=925))
    assert one.containers[KEY].throttled == 0.25
    reading(one, Reading(120.0, 12.0, 1.0, periods=1100, throttled_periods=925))
    assert one.containers[KEY].throttled == 0.0
    reading(one, Reading(130.0, 13.0, 1.0, periods=10, throttled_periods=5))
    assert one.containers[KEY].throttled == 0.0, "counters that begin again say nothing"


def test_a_young_containers_throttling_counts_from_its_start() -> None:
    use = use_of(None, Reading(110.0, 5.0, 1.0, started=100.0, periods=100, throttled_periods=30), 30.0)
    assert use is not None and use.throttled == 0.3
