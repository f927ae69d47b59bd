"""The queries sent to Prometheus, for any scrape configuration."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podfit.vpa.history.queries import PrometheusConfig, interval_of, parts, resolution

EVERY = st.sampled_from([5, 10, 15, 30, 60, 120, 300, 600, 900, 1800])


@given(EVERY, st.floats(0, 0.999))
def test_the_interval_of_scrapes_is_found_from_their_number(every: int, phase: float) -> None:
    scrapes = len([at for at in range(0, 7201, every) if phase * every <= at <= 3600 + phase * every])
    found = interval_of(scrapes, 3600.0)
    assert every <= found <= 1.5 * every


@given(EVERY, st.integers(0, 10**6), st.sampled_from([60.0, 600.0, 3600.0]))
def test_samples_are_never_requested_more_often_than_they_are_scraped(every: int, series: int, given: float) -> None:
    assert resolution(PrometheusConfig(history_resolution=given), every, series) >= every


@given(st.sampled_from([5, 15, 30, 60, 300, 450]), st.integers(0, 10**6))
def test_steps_are_at_most_half_an_hour_where_scrapes_allow(every: int, series: int) -> None:
    assert resolution(PrometheusConfig(), every, series) <= 1800


@given(st.floats(30, 7000), st.integers(1, 5000), st.floats(1e9, 2e9))
def test_parts_leave_out_no_step_and_repeat_none(step: float, series: int, until: float) -> None:
    step = round(step)
    config = PrometheusConfig(history_resolution=step, history_length=3 * 86400.0, prometheus_max_samples=20_000)
    found = parts(config, round(until), {until: series})
    asked = [part.start + number * step for part in found for number in range(part.points)]
    assert asked == [round(until) - 3 * 86400 + number * step for number in range(int(3 * 86400 // step) + 1)]
