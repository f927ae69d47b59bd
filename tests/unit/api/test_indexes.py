"""The indexes of a Job: sets of numbers whose cost depends on the number of their intervals."""

from __future__ import annotations

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.indexes import Indexes

NUMBERS = st.sets(st.integers(0, 60))
HUGE = Indexes.parse("0-1999999999")


@given(NUMBERS)
def test_indexes_survive_a_round_trip(numbers: set[int]) -> None:
    assert Indexes.parse(str(Indexes.of(numbers))) == Indexes.of(numbers)


@given(NUMBERS, NUMBERS, st.integers(0, 70))
def test_indexes_do_what_sets_do(left: set[int], right: set[int], total: int) -> None:
    one, other = Indexes.of(left), Indexes.of(right)
    assert one | other == Indexes.of(left | right)
    assert one & other == Indexes.of(left & right)
    assert one - other == Indexes.of(left - right)
    assert one.below(total) == Indexes.of(number for number in left if number < total)
    assert list(one.missing(total)) == [number for number in range(total) if number not in left]
    assert len(one) == len(left)
    assert all((number in one) == (number in left) for number in range(70))


def test_two_neighbours_are_listed_and_three_become_a_range() -> None:
    assert str(Indexes.of({1, 2, 4, 5, 6, 9})) == "1,2,4-6,9"


def test_billions_of_indexes_cost_what_one_interval_costs() -> None:
    assert len(HUGE) == 2_000_000_000 and len(HUGE & HUGE) == len(HUGE | HUGE) == 2_000_000_000
    assert (HUGE - Indexes.parse("5-1999999999")).intervals == ((0, 4),)
    assert list(islice(Indexes.parse("1-1000000000").missing(2_000_000_000), 2)) == [0, 1_000_000_001]
