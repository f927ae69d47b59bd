"""Which of the kernel's values the status may report."""

from __future__ import annotations

from podfit.agent.decide.resize import settle
from podfit.agent.runtimes.values import Limits


def test_the_status_shows_the_kernels_value_not_the_request() -> None:
    asked = {"limits": {"cpu": "400m", "memory": "128Mi"}, "requests": {"cpu": "300m", "memory": "64Mi"}}
    reported = {"limits": {"cpu": "200m", "memory": "64Mi"}, "requests": {"cpu": "100m", "memory": "32Mi"}}
    actual = Limits(102, 20_000, 64 << 20)
    assert settle.container_resources(asked, reported, actual) == reported
    assert settle.container_resources(asked, reported, None) == asked


def test_values_below_the_kernels_minimum_show_as_they_were_requested() -> None:
    asked = {"limits": {"cpu": "5m"}, "requests": {"cpu": "1m"}}
    assert settle.container_resources(asked, asked, Limits(2, 1000, None)) == asked


def test_a_size_that_is_not_a_whole_number_of_pages_shows_as_it_was_requested() -> None:
    asked = {"limits": {"memory": "100M"}}
    assert settle.container_resources(asked, asked, Limits(2, None, 99_999_744)) == {"limits": {"memory": "100000000"}}
