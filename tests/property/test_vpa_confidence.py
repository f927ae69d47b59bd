"""The width of the recommended range: the fewer samples there are, the wider it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podfit.vpa.recommender.decide.histograms.estimate import LOWER, UPPER, confidence, widening

DAY = 86400.0
trusts = st.floats(0.001, 100, allow_nan=False)


@given(trusts, trusts)
def test_the_range_narrows_with_every_sample(one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert widening(less, *UPPER) >= widening(more, *UPPER) >= 1.0
    assert widening(less, *LOWER) <= widening(more, *LOWER) <= 1.0


@given(st.integers(1, 20_000), st.integers(1, 20_000))
def test_confidence_grows_with_the_time_and_the_number_of_samples(one: int, other: int) -> None:
    few, many = sorted((one, other))
    assert confidence(0.0, few * 60.0, few, DAY) <= confidence(0.0, many * 60.0, many, DAY)
    assert confidence(0.0, many * 60.0, few, DAY) <= confidence(0.0, many * 60.0, many, DAY)


def test_a_day_of_samples_is_a_confidence_of_one() -> None:
    assert confidence(0.0, DAY, 1440, DAY) == 1.0
    assert widening(1.0, *UPPER) == 2.0
