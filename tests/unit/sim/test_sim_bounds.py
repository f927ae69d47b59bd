"""The bounds around a target: narrow with in-place updates, those of the Kubernetes recommender otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.scenarios import MIB

from podfit.sim.autoscaler.bounds import is_narrow, near, usual
from podfit.sim.scenario.model import IN_PLACE, IN_PLACE_OR_RECREATE, INITIAL, RECREATE
from podfit.vpa.policies.base import UsageSeries


@pytest.mark.parametrize(
    ("mode", "policy", "narrow"),
    [
        (IN_PLACE, "auto", True),
        (IN_PLACE_OR_RECREATE, "krr", True),
        (RECREATE, "auto", False),
        (INITIAL, "auto", False),
        (IN_PLACE, "default", False),
    ],
)
def test_only_policies_in_place_have_narrow_bounds(mode: str, policy: str, narrow: bool) -> None:
    assert is_narrow(mode, policy) == narrow


def test_narrow_bounds_are_five_percent_around_the_target() -> None:
    low, high = near(np.array([1000, 33]))
    assert (low.tolist(), high.tolist()) == ([950, 31], [1050, 35])


def seen(days: float, level: float, resource: str) -> UsageSeries:
    samples = np.full((1, round(days * 288) + 1), level, np.float32)
    samples[:, -1] = np.nan
    return UsageSeries(samples, 300.0, resource)


def test_usual_bounds_close_in_on_the_target_as_days_pass() -> None:
    highs = []
    for days in (0.5, 1.0, 4.0):
        low, high = usual(seen(days, 1.0, "cpu"), np.array([1200]), 1000.0)
        assert 1000 < low[0] <= 1200 <= high[0]
        highs.append(int(high[0]))
    assert highs == sorted(highs, reverse=True)
    assert highs[1] == pytest.approx(2 * 1200, rel=0.1), "twice what is used and a margin, after a day"


def test_usual_bounds_enclose_the_target() -> None:
    low, high = usual(seen(2.0, 500.0 * MIB, "memory"), np.array([10 * MIB]), 1.0)
    assert low[0] == 10 * MIB
    low, high = usual(seen(2.0, 500.0 * MIB, "memory"), np.array([9000 * MIB]), 1.0)
    assert high[0] == 9000 * MIB


def test_without_a_sample_nothing_is_outside() -> None:
    low, high = usual(UsageSeries(np.full((1, 20), np.nan, np.float32), 300.0, "cpu"), np.array([100]), 1000.0)
    assert low[0] == 0 and high[0] > 10**12
