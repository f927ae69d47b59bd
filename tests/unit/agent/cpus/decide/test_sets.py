"""Sets of CPUs parsed from text and formatted as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.agent.cpus.decide.sets import BadCpuList, parse, text


@pytest.mark.parametrize(("listed", "cpus"), [("", []), ("0", [0]), ("0-2,5", [0, 1, 2, 5]), (" 3 , 1-1 \n", [1, 3])])
def test_lists_are_read(listed: str, cpus: list[int]) -> None:
    assert sorted(parse(listed)) == cpus


@pytest.mark.parametrize("listed", ["a", "1-", "-1", "3-1", "1,,2", "1.5", "0x1"])
def test_an_invalid_cpu_list_is_rejected(listed: str) -> None:
    with pytest.raises(BadCpuList):
        parse(listed)


@given(st.frozensets(st.integers(0, 70)))
def test_a_set_survives_its_text(cpus: frozenset[int]) -> None:
    assert parse(text(cpus)) == cpus


def test_neighbours_are_written_as_a_range() -> None:
    assert text([8, 2, 1, 0]) == "0-2,8"
