"""Amounts as two bytes each."""

from __future__ import annotations

import numpy as np
import pytest

from podfit.vpa.recommender.decide.curves.codes import (
    LEAST,
    MOST,
    BadCurve,
    amounts_of,
    as_text,
    code_of,
    coded,
    from_text,
)


def test_nothing_known_is_zero_and_the_least_amount_is_one() -> None:
    assert coded(np.array([np.nan, 0.0, LEAST["cpu"]]), "cpu").tolist() == [0, 1, 1]
    assert coded(np.array([1e300]), "memory").tolist() == [MOST]


@pytest.mark.parametrize(("amount", "resource"), [(0.001, "cpu"), (1.5, "cpu"), (64.0, "cpu"), (1e9, "memory")])
def test_an_amount_comes_back_within_a_thousandth(amount: float, resource: str) -> None:
    codes = np.array([code_of(amount, resource)], np.uint16)
    assert amounts_of(codes, resource)[0] == pytest.approx(amount, rel=0.001)


def test_a_text_has_the_first_slot_and_both_resources() -> None:
    cpu, memory = np.array([1, 2, 0], np.uint16), np.array([9, 0, 7], np.uint16)
    first, read_cpu, read_memory = from_text(as_text(5, cpu, memory), 3)
    assert (first, read_cpu.tolist(), read_memory.tolist()) == (5, [1, 2, 0], [9, 0, 7])


def test_a_text_that_is_not_a_curve_is_refused() -> None:
    text = as_text(0, np.zeros(3, np.uint16), np.zeros(3, np.uint16))
    for bad in ("", "2" + text[1:], text.replace(":3:", ":4:"), text.replace(":3:", ":-1:"), "1:0:1:!!"):
        with pytest.raises(BadCurve):
            from_text(bad, 10)
    with pytest.raises(BadCurve, match="another version or length"):
        from_text(text, 2)
