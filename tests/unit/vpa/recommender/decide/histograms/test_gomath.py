"""Exp2, log and pow that round as upstream's do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from podfit.vpa.recommender.decide.histograms.gomath import exp2, exp2_array, log, pow_

NUMBERS = [-1080.0, -1074.0, -10.25, -1.0, -0.5, 0.0, 1e-9, 0.5, 1.0, 7.75, 1023.0, 1024.0, 2000.0]


def test_powers_of_two_saturate() -> None:
    assert (exp2(-1080.0), exp2(1024.0), exp2(10.0), exp2(0.0)) == (0.0, math.inf, 1024.0, 1.0)
    assert exp2(0.5) == pytest.approx(math.sqrt(2), rel=1e-15)


@pytest.mark.filterwarnings("ignore:overflow encountered in ldexp")
def test_arrays_are_the_single_numbers_bit_for_bit() -> None:
    assert exp2_array(np.array(NUMBERS)).tolist() == [exp2(number) for number in NUMBERS]


@pytest.mark.parametrize("number", [1e-300, 0.01, 0.7, 1.0, 1.05, 2.0, 1e12, 1e300])
def test_logarithms_are_those_of_the_c_library_but_for_the_last_bit(number: float) -> None:
    assert log(number) == pytest.approx(math.log(number), rel=4e-16, abs=1e-300)
    assert log(math.inf) == math.inf


@pytest.mark.parametrize(
    ("x", "y", "result"),
    [
        (3.0, 0.0, 1.0),
        (1.0, 99.0, 1.0),
        (3.0, 1.0, 3.0),
        (4.0, 0.5, 2.0),
        (4.0, -0.5, 0.5),
        (2.0, 10.0, 1024.0),
        (2.0, -2.0, 0.25),
        (math.inf, 1.0, math.inf),
        (math.inf, 2.0, math.inf),
        (math.inf, -2.0, 0.0),
        (1e200, 2.0, math.inf),
        (10.0, 1e9, math.inf),
    ],
)
def test_powers(x: float, y: float, result: float) -> None:
    assert pow_(x, y) == result


def test_powers_with_fractions_are_close() -> None:
    assert pow_(1.05, 2.7) == pytest.approx(1.05**2.7, rel=1e-15)
    assert pow_(1.05, 175.0) == pytest.approx(1.05**175, rel=1e-14)
