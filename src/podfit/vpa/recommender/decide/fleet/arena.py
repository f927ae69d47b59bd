"""Storage for the weights of all histograms of one resource: each has a window of neighbouring buckets, packed.

A container's usage touches a few dozen of the 176 buckets. Windows have a few fixed widths. All windows of one width
are in blocks, so that a block is a matrix without copying. A histogram that outgrows its window is moved to a wider
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
T = TypeVar("T", bound=np.generic)

BUCKETS = 176
WIDTHS = (24, 64, BUCKETS)
BLOCK = 2048
"""Windows per block: enough to make an operation on a block cheap, few enough to stay in cache."""
FREE = -1


class Arena:
    def __init__(self) -> None:
        self.weights: Floats = np.zeros(0)
        self.used = 0
        self.offset: Ints = np.zeros(0, np.int64)
        self.base: Ints = np.zeros(0, np.int64)
        self.width: Ints = np.zeros(0, np.int64)
        self._blocks: list[tuple[int, int, NDArray[np.int32]]] = []
        """Start, width, and the owning row of each window."""
        self._starts: Ints = np.zeros(0, np.int64)
        self._free: dict[int, list[int]] = {width: [] for width in WIDTHS}

    def resize_rows(self, rows: int) -> None:
        self.offset = grown(self.offset, rows)
        self.base = grown(self.base, rows)
        self.width = grown(self.width, rows)

    def place(self, rows: Ints, buckets: Ints) -> None:
        """Gives a first window around a bucket to rows that have none."""
        width = WIDTHS[0]
        starts = self._take(width, len(rows))
        self._assign(rows, starts, width)
        self.base[rows] = np.clip(buckets - width // 2, 0, BUCKETS - width)

    def widen(self, rows: Ints, low: Ints, high: Ints) -> None:
        """Moves rows (each listed once) to windows that also cover these buckets."""
        before, widths = self.base[rows], self.width[rows]
        low, high = np.minimum(low, before), np.maximum(high, before + widths - 1)
        kinds = np.searchsorted(np.array(WIDTHS), high - low + 1)
        for kind, wider in enumerate(WIDTHS):
            for width in WIDTHS[:kind]:
                chosen = np.flatnonzero((kinds == kind) & (widths == width))
                if len(chosen):
                    spare = (wider - (high[chosen] - low[chosen] + 1)) // 2
                    base = np.clip(low[chosen] - spare, 0, BUCKETS - wider)
                    self._move(rows[chosen], before[chosen] - base, base, width, wider)

    def _move(self, rows: Ints, shift: Ints, base: Ints, width: int, wider: int) -> None:
        old = self.offset[rows]
        new = self._take(wider, len(rows))
        columns = np.arange(width)
        self.weights[(new + shift)[:, None] + columns] = self.weights[old[:, None] + columns]
        self._assign(rows, new, wider)
        self.base[rows] = base
        self._release(old, width)

    def free(self, row: int) -> None:
        if self.width[row]:
            self._release(self.offset[row : row + 1].copy(), int(self.width[row]))
            self.width[row] = 0

    def window(self, row: int) -> Floats:
        start = int(self.offset[row])
        return self.weights[start : start + int(self.width[row])]

    def blocks(self) -> Iterator[tuple[Floats, NDArray[np.int32]]]:
        """Every block as a matrix (windows × buckets), with the rows that own its windows (or FREE)."""
        for start, width, owners in self._blocks:
            yield self.weights[start : start + width * len(owners)].reshape(-1, width), owners

    @property
    def nbytes(self) -> int:
        owners = sum(owners.nbytes for _, _, owners in self._blocks)
        return self.weights.nbytes + self.offset.nbytes + self.base.nbytes + self.width.nbytes + owners

    def _assign(self, rows: Ints, starts: Ints, width: int) -> None:
        self.offset[rows] = starts
        self.width[rows] = width
        self._own(starts, width, rows)

    def _own(self, starts: Ints, width: int, rows: Ints | int) -> None:
        """Records which rows own the windows that begin here."""
        numbers = np.searchsorted(self._starts, starts, side="right") - 1
        within = (starts - self._starts[numbers]) // width
        for number in np.unique(numbers).tolist():
            chosen = numbers == number
            self._blocks[number][2][within[chosen]] = rows if isinstance(rows, int) else rows[chosen]

    def _take(self, width: int, count: int) -> Ints:
        free = self._free[width]
        while len(free) < count:
            self._add_block(width)
        taken = free[-count:]
        del free[-count:]
        return np.array(taken, np.int64)

    def _add_block(self, width: int) -> None:
        start, size = self.used, width * BLOCK
        if start + size > len(self.weights):
            # Growth by an eighth limits memory that is reserved but unused; blocks are large enough to amortise it.
            self.weights = grown(self.weights, max(start + size, len(self.weights) + len(self.weights) // 8))
        self.used = start + size
        self._blocks.append((start, width, np.full(BLOCK, FREE, np.int32)))
        self._starts = np.append(self._starts, start)
        self._free[width].extend(range(start + size - width, start - 1, -width))

    def _release(self, starts: Ints, width: int) -> None:
        self.weights[starts[:, None] + np.arange(width)] = 0.0
        self._own(starts, width, FREE)
        self._free[width].extend(starts.tolist())


def grown(array: NDArray[T], length: int) -> NDArray[T]:
    """The array with zeros appended."""
    made = np.zeros(length, array.dtype)
    made[: len(array)] = array
    return made


def occurrence(values: Ints) -> Ints:
    """For each value the number of equal values before it."""
    ordered = np.argsort(values, kind="stable")
    run = values[ordered]
    repeated = run[1:] == run[:-1]
    starts = np.concatenate(([0], np.flatnonzero(~repeated) + 1))
    position = np.arange(len(values))
    ordinal = np.empty(len(values), np.int64)
    ordinal[ordered] = position - np.repeat(starts, np.diff(np.append(starts, len(values))))
    return ordinal
