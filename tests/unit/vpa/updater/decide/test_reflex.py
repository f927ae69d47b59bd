"""The amount of memory for a container that is near its limit."""

from __future__ import annotations

import pytest

from podfit.vpa.updater.decide.reflex import MI, EarlierReflexes, Grow, Stay, grown

GI = 1024 * MI


@pytest.mark.parametrize(
    ("before", "now", "mib"),
    [
        (EarlierReflexes(), 0.0, 150),
        (EarlierReflexes(1, 100.0, 100 * MI), 110.0, 200),
        (EarlierReflexes(1, 100.0, 100 * MI), 200.0, 125),
    ],
)
def test_the_step_depends_on_how_fast_the_container_grows(before: EarlierReflexes, now: float, mib: int) -> None:
    assert grown(100 * MI, 100 * MI, GI, before, now) == Grow(mib * MI, mib * MI, False)


def test_the_limit_keeps_its_proportion() -> None:
    found = grown(100 * MI, 200 * MI, GI, EarlierReflexes(), 0.0)
    assert isinstance(found, Grow) and found.limit == 300 * MI


def test_nothing_grows_beyond_the_bound() -> None:
    assert grown(100 * MI, 100 * MI, 120 * MI, EarlierReflexes(), 0.0) == Grow(120 * MI, 120 * MI, True)
    assert isinstance(grown(120 * MI, 120 * MI, 120 * MI, EarlierReflexes(), 0.0), Stay)


def test_without_a_maximum_four_times_the_first_request_is_the_bound() -> None:
    assert isinstance(grown(400 * MI, 400 * MI, None, EarlierReflexes(3, 0.0, 100 * MI), 0.0), Stay)
    assert isinstance(grown(399 * MI, 399 * MI, None, EarlierReflexes(3, 0.0, 100 * MI), 0.0), Grow)
