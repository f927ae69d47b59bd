"""Millicores and bytes, as numbers and as quantities."""

from __future__ import annotations

import math

import pytest

from podfit.api.quantity import Quantity
from podfit.vpa.recommender.decide.histograms.amounts import (
    MAX_AMOUNT,
    amount_of,
    humanized,
    quantities,
    rounded_up,
    scaled,
)


@pytest.mark.parametrize(
    ("number", "amount"),
    [(1.9, 1), (-1.0, 0), (math.nan, 0), (math.inf, MAX_AMOUNT), (1e30, MAX_AMOUNT)],
)
def test_numbers_are_truncated_and_kept_within_bounds(number: float, amount: int) -> None:
    assert amount_of(number) == amount


def test_scaling_truncates() -> None:
    assert scaled(3, 1.5) == 4


@pytest.mark.parametrize(("amount", "step", "result"), [(101, 100, 200), (100, 100, 100), (101, 0, 101), (5, -1, 5)])
def test_rounding_goes_up_to_a_multiple(amount: int, step: int, result: int) -> None:
    assert rounded_up(amount, step) == result


@pytest.mark.parametrize(("amount", "text"), [(512, "512"), (1536, "1.50Ki"), (3 << 29, "1.50Gi"), (1 << 40, "1.00Ti")])
def test_memory_for_people_has_the_largest_unit_that_fits(amount: int, text: str) -> None:
    assert humanized(amount) == Quantity.parse(text)


def test_resources_that_have_no_amount_are_left_out() -> None:
    assert quantities({"cpu": 150}, False, 100, 1) == {"cpu": Quantity.parse("200m")}
    assert quantities({"memory": 1 << 20}, False, 1, 1) == {"memory": Quantity.parse("1Mi")}
