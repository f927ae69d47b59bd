"""Counting a Job's pods."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.controllers.workloads.jobcount import (
    format_indexes,
    is_complete,
    matched_success,
    parse_indexes,
    wanted_active,
)


@given(st.sets(st.integers(0, 200)))
def test_index_ranges_survive_a_round_trip(indexes: set[int]) -> None:
    assert parse_indexes(format_indexes(indexes)) == indexes


def test_two_neighbours_are_listed_and_three_become_a_range() -> None:
    assert format_indexes({1, 2, 4, 5, 6, 9}) == "1,2,4-6,9"


@given(st.integers(0, 10), st.integers(0, 10), st.integers(0, 12))
def test_a_job_never_runs_more_pods_than_are_still_needed(parallelism: int, completions: int, succeeded: int) -> None:
    spec = {"parallelism": parallelism, "completions": completions}
    wanted = wanted_active(spec, 0, succeeded)
    assert 0 <= wanted <= parallelism and wanted + min(succeeded, completions) <= completions


def test_a_work_queue_job_starts_nothing_new_after_the_first_success() -> None:
    assert wanted_active({"parallelism": 3}, 2, 1) == 2
    assert is_complete({"parallelism": 3}, 0, 1) and not is_complete({"parallelism": 3}, 1, 1)


@pytest.mark.parametrize(
    ("rules", "done", "expected"),
    [
        ([{"succeededIndexes": "0,2-3"}], {0, 2}, None),
        ([{"succeededIndexes": "0,2-3"}], {0, 1, 2, 3}, 0),
        ([{"succeededCount": 2}], {5}, None),
        ([{"succeededCount": 2}], {5, 9}, 0),
        ([{"succeededIndexes": "0-4", "succeededCount": 1}], {7}, None),
        ([{"succeededIndexes": "0"}, {"succeededIndexes": "1-4", "succeededCount": 1}], {3}, 1),
        ([], {0, 1}, None),
    ],
)
def test_a_success_policy_is_met_by_its_first_fulfilled_rule(
    rules: list[dict[str, Any]], done: set[int], expected: int | None
) -> None:
    assert matched_success({"successPolicy": {"rules": rules}}, done) == expected
