"""Windows of neighbouring buckets, packed."""

from __future__ import annotations

import numpy as np
import pytest

from podfit.vpa.recommender.decide.fleet.arena import BLOCK, BUCKETS, FREE, WIDTHS, Arena, grown, occurrence


def rows(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def arena(*buckets: int) -> Arena:
    """One row for each bucket, with a window around it that holds the row's number plus one."""
    made = Arena()
    made.resize_rows(len(buckets))
    made.place(np.arange(len(buckets)), rows(*buckets))
    for row, bucket in enumerate(buckets):
        made.window(row)[bucket - int(made.base[row])] = row + 1
    return made


@pytest.mark.parametrize("bucket", [0, 5, 90, BUCKETS - 1])
def test_a_first_window_lies_around_its_bucket_and_within_all_buckets(bucket: int) -> None:
    made = arena(bucket)
    base = int(made.base[0])
    assert 0 <= base <= bucket < base + WIDTHS[0] <= BUCKETS


def test_a_wider_window_keeps_what_is_in_it() -> None:
    made = arena(90, 20)
    made.widen(rows(0), rows(40), rows(90))
    assert made.width.tolist() == [WIDTHS[1], WIDTHS[0]]
    assert made.window(0)[90 - int(made.base[0])] == 1 and made.window(0).sum() == 1
    made.widen(rows(0), rows(0), rows(BUCKETS - 1))
    assert made.width[0] == BUCKETS and made.window(0)[90] == 1
    assert made.window(1).sum() == 2


def test_a_window_that_is_given_back_is_empty_and_used_again() -> None:
    made = arena(90)
    before = int(made.offset[0])
    made.free(0)
    made.free(0)
    assert made.width[0] == 0 and not made.weights.any()
    made.place(rows(0), rows(10))
    assert int(made.offset[0]) == before


def test_blocks_are_matrices_that_know_the_owners_of_their_rows() -> None:
    made = arena(90, 20)
    [(matrix, owners)] = made.blocks()
    assert matrix.shape == (BLOCK, WIDTHS[0])
    assert sorted(owners[owners != FREE].tolist()) == [0, 1]
    assert matrix[owners == 1].sum() == 2


def test_more_rows_than_a_block_holds_get_another_block() -> None:
    made = arena(*[90] * (BLOCK + 1))
    assert len(list(made.blocks())) == 2 and made.window(BLOCK).sum() == BLOCK + 1
    assert made.nbytes > made.weights.nbytes


def test_arrays_grow_by_zeros() -> None:
    assert grown(rows(1, 2), 4).tolist() == [1, 2, 0, 0]


def test_repeated_values_are_numbered() -> None:
    assert occurrence(rows(7, 3, 7, 7, 3)).tolist() == [0, 0, 1, 2, 1]
    assert occurrence(rows(1)).tolist() == [0]
