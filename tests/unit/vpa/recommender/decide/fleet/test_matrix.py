"""Many decaying histograms at once, each equal to a single `DecayingHistogram`."""

from __future__ import annotations

import numpy as np
import pytest

from podfit.vpa.recommender.decide.fleet.matrix import HistogramMatrix, percentile_steps
from podfit.vpa.recommender.decide.histograms.buckets import CPU
from podfit.vpa.recommender.decide.histograms.histogram import MAX_DOUBLINGS, DecayingHistogram

START, HALF_LIFE = 1_700_006_400.0, 86400.0
FAR = START + (MAX_DOUBLINGS + 1) * HALF_LIFE
Sample = tuple[int, float, float]
"""Row, cores, instant."""


def matrix(*samples: Sample, rows: int = 3) -> HistogramMatrix:
    made = HistogramMatrix(CPU, HALF_LIFE)
    made.resize_rows(rows)
    change(made, "add", *samples)
    return made


def change(made: HistogramMatrix, name: str, *samples: Sample) -> None:
    if samples:
        rows, cores, instants = zip(*samples, strict=True)
        buckets = np.array([CPU.find(core) for core in cores])
        getattr(made, name)(np.array(rows), buckets, 1.0, np.array(instants))


def alone(*samples: Sample, row: int) -> DecayingHistogram:
    made = DecayingHistogram(CPU, HALF_LIFE)
    for item, cores, instant in samples:
        if item == row:
            made.add(cores, 1.0, instant)
    return made


def expect_same(made: HistogramMatrix, row: int, single: DecayingHistogram) -> None:
    window, base = made.arena.window(row), int(made.arena.base[row])
    weights = [0.0] * base + window.tolist()
    assert weights + [0.0] * (CPU.count - len(weights)) == single.weights
    assert (made.total[row], made.low[row], made.high[row], made.reference[row]) == (
        single.total,
        single.low,
        single.high,
        single.reference,
    )


@pytest.mark.parametrize(
    "samples",
    [
        ((0, 0.1, START), (1, 4.0, START + 7.5)),
        ((0, 0.1, START), (0, 0.1, START + 60), (0, 900.0, START + 120)),
        ((0, 0.1, START), (0, 4.0, FAR), (1, 0.2, START)),
        ((2, 0.0, START), (2, 1000.0, START)),
    ],
)
def test_each_row_is_as_if_it_were_alone(samples: tuple[Sample, ...]) -> None:
    made = matrix(*samples)
    for row in {row for row, _, _ in samples}:
        expect_same(made, row, alone(*samples, row=row))


def test_a_sample_that_is_taken_out_leaves_the_others() -> None:
    samples = ((0, 0.1, START), (0, 4.0, START), (1, 0.1, START))
    made, single = matrix(*samples), alone(*samples, row=0)
    change(made, "subtract", (0, 4.0, START))
    single.subtract(4.0, 1.0, START)
    expect_same(made, 0, single)


def test_percentiles_of_all_rows_and_none_of_an_empty_one() -> None:
    samples = (*((0, 0.1, START),) * 9, (0, 4.0, START), (1, 1.0, START))
    found = matrix(*samples).percentile_buckets((0.9, 0.95))
    assert found[:, 0].tolist() == [CPU.find(0.1), CPU.find(4.0)]
    assert found[:, 1].tolist() == [CPU.find(1.0)] * 2 and found[:, 2].tolist() == [-1, -1]


def test_a_cleared_row_is_empty() -> None:
    made = matrix((0, 0.1, START))
    made.clear(0)
    assert made.total[0] == 0 and made.percentile_buckets((0.5,))[0, 0] == -1


def test_the_weight_of_one_bucket_may_be_set() -> None:
    made = matrix((0, 0.1, START))
    made.set_weight(0, 170, 2.5)
    assert made.arena.window(0)[170 - int(made.arena.base[0])] == 2.5


def test_weights_below_the_lowest_bucket_that_counts_are_left_out() -> None:
    weights, total = np.array([[9.0, 1.0, 1.0]]), np.array([2.0])
    low = np.array([1])
    assert percentile_steps(weights, low, total, (0.5, 1.0), True).tolist() == [[1], [2]]
    assert percentile_steps(weights, low, total, (0.5, 1.0), False).tolist() == [[0], [0]]
