"""Merges rows of many groups side by side: the first rows of all groups, then the second ones, and so on.

Each step does to whole matrices what `DecayingHistogram.merge` does to two histograms, in the same order, so that the
sums agree to the last bit. The rows themselves are not changed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.model.times import LONGEST, NEVER
from podfit.vpa.recommender.decide.fleet.arena import Floats, Ints
from podfit.vpa.recommender.decide.fleet.matrix import HistogramMatrix, percentile_steps
from podfit.vpa.recommender.decide.histograms.gomath import exp2_array
from podfit.vpa.recommender.decide.histograms.histogram import MAX_DOUBLINGS

Flags = NDArray[np.bool_]


class DenseHistograms:
    """Histograms with all their buckets, one per line."""

    def __init__(self, matrix: HistogramMatrix, lines: int) -> None:
        self.half_life = matrix.half_life
        self.epsilon = matrix.scheme.epsilon
        self.weights: Floats = np.zeros((lines, matrix.scheme.count))
        self.total: Floats = np.zeros(lines)
        self.low: Ints = np.full(lines, matrix.scheme.count - 1, np.int64)
        self.high: Ints = np.zeros(lines, np.int64)
        self.reference: Floats = np.full(lines, float(NEVER))
        self._columns = np.arange(matrix.scheme.count)

    @staticmethod
    def of_rows(matrix: HistogramMatrix, rows: Ints) -> DenseHistograms:
        dense = DenseHistograms(matrix, len(rows))
        widths = matrix.arena.width[rows]
        line, within = np.repeat(np.arange(len(rows)), widths), ranges(np.zeros(len(rows), np.int64), widths)
        dense.weights[line, matrix.arena.base[rows][line] + within] = matrix.arena.weights[
            matrix.arena.offset[rows][line] + within
        ]
        dense.total, dense.reference = matrix.total[rows], matrix.reference[rows]
        dense.low, dense.high = matrix.low[rows], matrix.high[rows]
        return dense

    def add(self, lines: Ints, other: DenseHistograms) -> None:
        """Adds the other's lines to these lines."""
        mine = self.reference[lines]
        older = mine < other.reference
        self._move(lines[older], other.reference[older])
        newer = other.reference < mine
        other._move(np.flatnonzero(newer), mine[newer])
        counted = np.where(other._inside(slice(None)), other.weights, 0.0)
        self.weights[lines] += counted
        self.total[lines] += other.total
        self.low[lines] = np.minimum(self.low[lines], other.low)
        self.high[lines] = np.maximum(self.high[lines], other.high)

    def subtract(self, lines: Ints, buckets: Ints, weight: float, instants: Floats) -> None:
        """Subtracts a sample from each of the lines (each listed once). Values below epsilon become zero."""
        far = instants > self.reference[lines] + MAX_DOUBLINGS * self.half_life
        self._move(lines[far], instants[far])
        gap = np.clip(instants - self.reference[lines], -LONGEST, LONGEST)
        taken = weight * exp2_array(gap / self.half_life)
        for rest, place in ((self.weights, (lines, buckets)), (self.total, (lines,))):
            left = rest[place] - taken
            rest[place] = np.where(left < self.epsilon, 0.0, left)
        self._narrow(lines)

    def percentile_buckets(self, fractions: tuple[float, ...]) -> Ints:
        steps = percentile_steps(self.weights, self.low, self.total, fractions, True)
        empty = self.weights[np.arange(len(self.low)), self.low] < self.epsilon
        return np.where(empty, -1, np.clip(steps, self.low, np.maximum(self.low, self.high)))

    def inside(self) -> Flags:
        """The buckets of each line that count."""
        return self._inside(slice(None))

    def _inside(self, lines: Ints | slice) -> Flags:
        low, high = self.low[lines][:, None], self.high[lines][:, None]
        inside: Flags = (self._columns >= low) & (self._columns <= high)
        return inside

    def _move(self, lines: Ints, instants: Floats) -> None:
        """Moves the references of lines to the multiples of the half-life nearest to the instants."""
        if not len(lines):
            return
        moved = NEVER + np.floor((instants - NEVER) / self.half_life + 0.5) * self.half_life
        gap = np.clip(self.reference[lines] - moved, -LONGEST, LONGEST)
        doublings = np.clip(np.floor(gap / self.half_life + 0.5), -2000, 1023)
        factor = np.ldexp(1.0, doublings.astype(np.int32))
        scaled = np.where(self._inside(lines), self.weights[lines] * factor[:, None], self.weights[lines])
        self.weights[lines] = scaled
        self.total[lines] *= factor
        self.reference[lines] = moved
        self._narrow(lines)

    def _narrow(self, lines: Ints) -> None:
        """Moves low and high past buckets that no longer count."""
        counts = self.weights[lines] >= self.epsilon
        above = counts & (self._columns >= self.low[lines][:, None])
        below = counts & (self._columns <= self.high[lines][:, None])
        last = len(self._columns) - 1
        self.low[lines] = np.where(above.any(axis=1), above.argmax(axis=1), last)
        self.high[lines] = np.where(below.any(axis=1), last - below[:, ::-1].argmax(axis=1), 0)


def merged(matrix: HistogramMatrix, rows: Ints, starts: Ints, sizes: Ints) -> DenseHistograms:
    """One line for each group; group i has `rows[starts[i] : starts[i] + sizes[i]]`."""
    dense = DenseHistograms(matrix, len(sizes))
    for number in range(int(sizes.max(initial=0))):
        lines = np.flatnonzero(sizes > number)
        dense.add(lines, DenseHistograms.of_rows(matrix, rows[starts[lines] + number]))
    return dense


def ranges(starts: Ints, lengths: Ints) -> Ints:
    """Concatenates the ranges start, start + 1, … of every start."""
    ends = np.cumsum(lengths)
    if not len(ends) or not ends[-1]:
        return np.zeros(0, np.int64)
    return np.arange(ends[-1]) - np.repeat(ends - lengths, lengths) + np.repeat(starts, lengths)
