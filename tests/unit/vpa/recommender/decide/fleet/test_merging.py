"""Rows of many groups, merged side by side."""

from __future__ import annotations

import numpy as np

from podfit.vpa.recommender.decide.fleet.matrix import HistogramMatrix
from podfit.vpa.recommender.decide.fleet.merging import DenseHistograms, merged, ranges
from podfit.vpa.recommender.decide.histograms.buckets import CPU
from podfit.vpa.recommender.decide.histograms.histogram import DecayingHistogram

START, HALF_LIFE = 1_700_006_400.0, 86400.0
SAMPLES = ((0, 0.1, START), (1, 4.0, START + 200 * HALF_LIFE), (2, 1.0, START), (3, 0.5, START))
"""Row, cores, instant; the references of rows 0 and 1 are far apart."""


def matrix() -> HistogramMatrix:
    made = HistogramMatrix(CPU, HALF_LIFE)
    made.resize_rows(len(SAMPLES))
    for row, cores, instant in SAMPLES:
        made.add(np.array([row]), np.array([CPU.find(cores)]), 1.0, np.array([instant]))
    return made


def single(*rows: int) -> DecayingHistogram:
    made = DecayingHistogram(CPU, HALF_LIFE)
    for row in rows:
        other = DecayingHistogram(CPU, HALF_LIFE)
        other.add(SAMPLES[row][1], 1.0, SAMPLES[row][2])
        made.merge(other)
    return made


def expect_line(sheet: DenseHistograms, line: int, histogram: DecayingHistogram) -> None:
    counted = np.where(sheet.inside()[line], sheet.weights[line], 0.0)
    inside = range(histogram.low, histogram.high + 1)
    assert counted.tolist() == [histogram.weights[bucket] if bucket in inside else 0.0 for bucket in range(CPU.count)]
    assert (sheet.total[line], sheet.reference[line]) == (histogram.total, histogram.reference)


def test_each_group_is_merged_as_single_histograms_are() -> None:
    groups = ((0, 1), (2,), (3, 2, 0))
    rows = np.array([row for group in groups for row in group])
    sizes = np.array([len(group) for group in groups])
    sheet = merged(matrix(), rows, np.cumsum(sizes) - sizes, sizes)
    for line, group in enumerate(groups):
        expect_line(sheet, line, single(*group))


def test_rows_are_left_as_they_are() -> None:
    made = matrix()
    before = made.arena.weights.copy(), made.reference.copy()
    merged(made, np.array([0, 1]), np.array([0]), np.array([2]))
    assert (made.arena.weights == before[0]).all() and (made.reference == before[1]).all()


def test_a_sample_is_taken_out_of_a_line() -> None:
    sheet = merged(matrix(), np.array([0, 3]), np.array([0]), np.array([2]))
    sheet.subtract(np.array([0]), np.array([CPU.find(0.1)]), 1.0, np.array([START]))
    one = single(0, 3)
    one.subtract(0.1, 1.0, START)
    expect_line(sheet, 0, one)
    assert sheet.percentile_buckets((0.9,)).tolist() == [[CPU.find(0.5)]]


def test_a_group_without_rows_is_an_empty_line() -> None:
    sheet = merged(matrix(), np.zeros(0, np.int64), np.array([0]), np.array([0]))
    assert sheet.percentile_buckets((0.5,)).tolist() == [[-1]]


def test_ranges_are_listed_in_order() -> None:
    assert ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    assert ranges(np.array([5]), np.array([0])).tolist() == []
