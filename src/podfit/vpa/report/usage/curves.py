"""Combines the samples of many pods into one curve per container of a workload, so that deleted pods cost no memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.history.base import NONE, Batch
from podfit.vpa.model.times import Seconds
from podfit.vpa.report.cluster.workloads import Key
from podfit.vpa.report.usage.evidence import Curve, Floats

Row = tuple[Key, str]


@dataclass(frozen=True, slots=True)
class Grid:
    """Points in time at equal distances."""

    start: Seconds
    step: Seconds
    points: int

    def at(self, times: NDArray[np.float64]) -> NDArray[np.int64]:
        """The nearest point of each instant; -1 for instants outside of the grid."""
        found = np.rint((times - self.start) / self.step).astype(np.int64)
        found[(found < 0) | (found >= self.points)] = -1
        return found


class _Sheet:
    """The maximum, sum and count of one resource, by row and point."""

    def __init__(self, points: int) -> None:
        self.high: Floats = np.full((0, points), np.nan, np.float32)
        self.sum = np.zeros((0, points), np.float64)
        self.count = np.zeros((0, points), np.int32)

    def grow(self, rows: int) -> None:
        more = rows - len(self.high)
        if more <= 0:
            return
        points = self.high.shape[1]
        self.high = np.concatenate((self.high, np.full((more, points), np.nan, np.float32)))
        self.sum = np.concatenate((self.sum, np.zeros((more, points))))
        self.count = np.concatenate((self.count, np.zeros((more, points), np.int32)))

    def add(self, rows: NDArray[np.int64], points: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        np.fmax.at(self.high, (rows, points), values.astype(np.float32))
        np.add.at(self.sum, (rows, points), values)
        np.add.at(self.count, (rows, points), 1)

    def mean(self, row: int) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            made: Floats = (self.sum[row] / np.where(self.count[row], self.count[row], np.nan)).astype(np.float32)
        return made


class WorkloadCurves:
    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._rows: dict[Row, int] = {}
        self._cpu, self._memory = _Sheet(grid.points), _Sheet(grid.points)

    def row(self, key: Key, container: str) -> int:
        return self._rows.setdefault((key, container), len(self._rows))

    @property
    def known(self) -> list[Row]:
        return list(self._rows)

    def take(self, batch: Batch, rows: NDArray[np.int64]) -> None:
        """Adds a batch of samples. `rows` are those of the batch's series; -1 for series without a workload."""
        size = max(len(self._rows), 1)
        if size > len(self._cpu.high):
            grown = max(size, 2 * len(self._cpu.high))
            self._cpu.grow(grown)
            self._memory.grow(grown)
        if not len(batch.index):
            return
        row, point = rows[batch.index], self.grid.at(batch.times)
        for sheet, values, unit in ((self._cpu, batch.cpu, 1000.0), (self._memory, batch.memory, 1.0)):
            good = (row >= 0) & (point >= 0) & (values != NONE)
            sheet.add(row[good], point[good], values[good] / unit)

    def curve(self, key: Key, container: str) -> Curve | None:
        at = self._rows.get((key, container))
        if at is None or at >= len(self._cpu.high):
            return None
        return Curve(
            self.grid.start,
            self.grid.step,
            self._cpu.high[at],
            self._cpu.mean(at),
            self._memory.high[at],
            self._memory.mean(at),
        )
