"""The margin of small groups of pods."""

from __future__ import annotations

import pytest

from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.histograms.estimate import Estimate
from podfit.vpa.recommender.decide.histograms.groupsize import for_group, group_factor

SIZES = Estimate({"cpu": 1000}, {"cpu": 500}, {"cpu": 2000})
HALF = Config(small_group_margin=0.5)


@pytest.mark.parametrize(("pods", "factor"), [(0, 1.5), (1, 1.5), (10, 1.05)])
def test_the_margin_is_divided_by_the_number_of_pods(pods: int, factor: float) -> None:
    assert group_factor(pods, HALF) == factor


def test_target_and_upper_bound_grow_and_the_lower_bound_stays() -> None:
    assert for_group(SIZES, 2, HALF) == Estimate({"cpu": 1250}, {"cpu": 500}, {"cpu": 2500})


def test_without_a_margin_nothing_changes() -> None:
    assert for_group(SIZES, 1, Config()) is SIZES
