"""The decaying histograms of one resource, many at a time. Each row equals a `DecayingHistogram`, bit for bit."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.model.times import LONGEST, NEVER, Seconds, elapsed
from podfit.vpa.recommender.decide.fleet.arena import FREE, Arena, Floats, Ints, grown, occurrence
from podfit.vpa.recommender.decide.histograms.buckets import BucketScheme
from podfit.vpa.recommender.decide.histograms.gomath import exp2_array
from podfit.vpa.recommender.decide.histograms.histogram import MAX_DOUBLINGS

Buckets = NDArray[np.int64]
TABLE = 4096
"""A table of growth factors is used if the samples of a slice are at most this many seconds apart."""


class HistogramMatrix:
    def __init__(self, scheme: BucketScheme, half_life: Seconds) -> None:
        self.scheme = scheme
        self.half_life = half_life
        self.arena = Arena()
        self.reference: Floats = np.zeros(0)
        self.total: Floats = np.zeros(0)
        self.low: Ints = np.zeros(0, np.int64)
        self.high: Ints = np.zeros(0, np.int64)
        self.has_remainders = False
        """Whether weights below epsilon may be outside low and high, where they must not count."""

    def resize_rows(self, rows: int) -> None:
        before = len(self.total)
        self.arena.resize_rows(rows)
        self.reference = grown(self.reference, rows)
        self.total = grown(self.total, rows)
        self.low = grown(self.low, rows)
        self.high = grown(self.high, rows)
        self._blank(slice(before, rows))

    def clear(self, row: int) -> None:
        self.arena.free(row)
        self._blank(slice(row, row + 1))

    def _blank(self, rows: slice) -> None:
        self.reference[rows] = NEVER
        self.total[rows] = 0.0
        self.low[rows] = self.scheme.count - 1
        self.high[rows] = 0

    @property
    def nbytes(self) -> int:
        arrays = (self.reference, self.total, self.low, self.high)
        return self.arena.nbytes + sum(array.nbytes for array in arrays)

    # --- adding and subtracting -----------------------------------------------------------------------------------

    def add(self, rows: Ints, buckets: Buckets, weight: float, instants: Floats, distinct: bool = False) -> None:
        """Adds one sample to each row. Rows may repeat, and are then added in order; with `distinct` the caller
        guarantees that none does."""
        ages = instants - self.reference[rows]
        if len(ages) and ages.max() > MAX_DOUBLINGS * self.half_life:
            if not distinct:
                self._add_in_rounds(rows, buckets, weight, instants)
                return
            ages = self._moved(rows, instants)
        weights = self._doubled(ages)
        weights *= weight
        outside = (buckets < self.low[rows]) | (buckets > self.high[rows])
        spread = bool(outside.any())
        if spread:
            self._make_room(rows[outside], buckets[outside])
        at = self.arena.offset[rows]
        at += buckets
        at -= self.arena.base[rows]
        if distinct:
            self.arena.weights[at] += weights
            self.total[rows] += weights
        else:
            np.add.at(self.arena.weights, at, weights)
            np.add.at(self.total, rows, weights)
        if spread:
            self._extend(rows[outside], buckets[outside], at[outside])

    def _add_in_rounds(self, rows: Ints, buckets: Buckets, weight: float, instants: Floats) -> None:
        """Adds the samples of each row one after the other, which is necessary if references move in between."""
        ordinal = occurrence(rows)
        for number in range(int(ordinal.max()) + 1):
            chosen = ordinal == number
            self.add(rows[chosen], buckets[chosen], weight, instants[chosen], distinct=True)

    def _extend(self, rows: Ints, buckets: Buckets, at: Ints) -> None:
        """Extends low and high to buckets that now count."""
        counts = self.arena.weights[at] >= self.scheme.epsilon
        self.has_remainders |= not counts.all()
        np.minimum.at(self.low, rows[counts], buckets[counts])
        np.maximum.at(self.high, rows[counts], buckets[counts])

    def set_weight(self, row: int, bucket: int, weight: float) -> None:
        """Sets one weight. The caller processes a single row, and maintains low, high and total itself."""
        self._make_room(np.array([row]), np.array([bucket]))
        self.arena.weights[int(self.arena.offset[row]) + bucket - int(self.arena.base[row])] = weight
        self.has_remainders |= 0.0 < weight < self.scheme.epsilon

    def subtract(self, rows: Ints, buckets: Buckets, weight: float, instants: Floats) -> None:
        """Subtracts one sample from each row; rows must not repeat."""
        epsilon = self.scheme.epsilon
        weights = self._doubled(self._moved(rows, instants))
        weights *= weight
        self._make_room(rows, buckets)
        at = self.arena.offset[rows] + buckets - self.arena.base[rows]
        left = self.arena.weights[at] - weights
        self.arena.weights[at] = np.where(left < epsilon, 0.0, left)
        total = self.total[rows] - weights
        self.total[rows] = np.where(total < epsilon, 0.0, total)
        self._narrow(rows)

    def _moved(self, rows: Ints, instants: Floats) -> Floats:
        """Moves the references of rows that are too far behind, and returns the ages of samples. No row may repeat."""
        late = instants > self.reference[rows] + MAX_DOUBLINGS * self.half_life
        self._move_references(rows[late], instants[late])
        return instants - self.reference[rows]

    def _doubled(self, ages: Floats) -> Floats:
        """2 ** (age / half-life). The samples of one scrape have few different ages, so a table is often sufficient."""
        if not len(ages):
            return ages
        youngest, oldest = float(ages.min()), float(ages.max())
        if youngest < -LONGEST:
            return exp2_array(np.maximum(ages, -LONGEST) / self.half_life)
        if oldest - youngest < min(TABLE, len(ages)) and youngest.is_integer():
            steps = ages - youngest
            index = steps.astype(np.int64)
            if (index == steps).all():
                table = exp2_array(np.arange(youngest, oldest + 1) / self.half_life)
                return table[index]
        return exp2_array(ages / self.half_life)

    def _move_references(self, rows: Ints, instants: Floats) -> None:
        """Moves the references of rows to these instants; rows must not repeat."""
        moved = NEVER + np.floor((instants - NEVER) / self.half_life + 0.5) * self.half_life
        for at in np.flatnonzero(self.arena.width[rows] > 0).tolist():
            doublings = math.floor(elapsed(float(self.reference[rows[at]]), float(moved[at])) / self.half_life + 0.5)
            self._scale(int(rows[at]), math.ldexp(1.0, max(-2000, min(1023, doublings))))
        self.reference[rows] = moved

    def _scale(self, row: int, factor: float) -> None:
        base = int(self.arena.base[row])
        low, high = max(0, int(self.low[row]) - base), int(self.high[row]) - base + 1
        self.arena.window(row)[low : max(low, high)] *= factor
        self.total[row] *= factor
        self._narrow(np.array([row]))

    def _make_room(self, rows: Ints, buckets: Buckets) -> None:
        fresh = self.arena.width[rows] == 0
        if fresh.any():
            new, where = np.unique(rows[fresh], return_index=True)
            self.arena.place(new, buckets[fresh][where])
        inside = buckets - self.arena.base[rows]
        missing = (inside < 0) | (inside >= self.arena.width[rows])
        if missing.any():
            wanting, where = np.unique(rows[missing], return_inverse=True)
            low = np.full(len(wanting), self.scheme.count, np.int64)
            high = np.zeros(len(wanting), np.int64)
            np.minimum.at(low, where, buckets[missing])
            np.maximum.at(high, where, buckets[missing])
            self.arena.widen(wanting, low, high)

    def _narrow(self, rows: Ints) -> None:
        """Moves low and high of rows (each listed once) past buckets that no longer count."""
        widths = self.arena.width[rows]
        for width in np.unique(widths[widths > 0]).tolist():
            chosen = rows[widths == width]
            base = self.arena.base[chosen]
            low, high = self.low[chosen] - base, self.high[chosen] - base
            columns = np.arange(width)
            counts = self.arena.weights[self.arena.offset[chosen][:, None] + columns] >= self.scheme.epsilon
            above = counts & (columns >= low[:, None])
            below = counts & (columns <= high[:, None])
            last = self.scheme.count - 1
            self.has_remainders |= bool(
                (self.arena.weights[self.arena.offset[chosen][:, None] + columns] * ~counts).any()
            )
            self.low[chosen] = np.where(above.any(axis=1), base + above.argmax(axis=1), last)
            highest = width - 1 - below[:, ::-1].argmax(axis=1)
            self.high[chosen] = np.where(below.any(axis=1), base + highest, 0)

    # --- reading --------------------------------------------------------------------------------------------------

    def percentile_buckets(self, fractions: tuple[float, ...]) -> Ints:
        """The bucket in which each row reaches each fraction; -1 for an empty histogram."""
        found = np.full((len(fractions), len(self.total)), -1, np.int64)
        for matrix, owners in self.arena.blocks():
            used = owners != FREE
            if not used.all():
                matrix, owners = matrix[used], owners[used]
            if len(owners):
                found[:, owners] = self._block_percentiles(matrix, owners, fractions)
        return found

    def _block_percentiles(self, matrix: Floats, owners: NDArray[np.int32], fractions: tuple[float, ...]) -> Ints:
        base = self.arena.base[owners]
        low, high = self.low[owners] - base, self.high[owners] - base
        steps = percentile_steps(matrix, low, self.total[owners], fractions, self.has_remainders)
        inside = np.clip(low, 0, matrix.shape[1] - 1)
        empty = (low != inside) | (matrix[np.arange(len(matrix)), inside] < self.scheme.epsilon)
        return np.where(empty, -1, np.clip(steps, low, np.maximum(low, high)) + base)


def percentile_steps(
    matrix: Floats, low: Ints, total: Floats, fractions: tuple[float, ...], has_remainders: bool
) -> NDArray[np.uint8]:
    """The number of columns for which each row's running sum, which begins at `low`, stays below each fraction of its
    total.

    It is computed column by column over all rows at once: the sum must be built in this order to equal the scalar one.
    """
    columns = np.ascontiguousarray(matrix.T)
    thresholds = [fraction * total for fraction in fractions]
    steps = np.zeros((len(fractions), len(matrix)), np.uint8)
    reached = np.zeros(len(matrix))
    below = np.empty(len(matrix), np.bool_)
    for number, column in enumerate(columns):
        if has_remainders:
            column = np.where(number >= low, column, 0.0)
        np.add(reached, column, out=reached)
        for index, threshold in enumerate(thresholds):
            np.less(reached, threshold, out=below)
            np.add(steps[index], below.view(np.uint8), out=steps[index])
    return steps
