"""Presents a row or a container of a fleet through the classes for a single one.

The single-sample logic (windows, out-of-memory, checkpoints, merging) is written once, in those classes; the classes
here only read and write its numbers in the arrays.
"""

from __future__ import annotations

from collections.abc import Iterator

from podfit.vpa.model.times import NEVER, Seconds
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.fleet.matrix import HistogramMatrix
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState
from podfit.vpa.recommender.decide.histograms.container import ContainerState
from podfit.vpa.recommender.decide.histograms.histogram import DecayingHistogram


class RowWeights:
    """The weights of one row, by bucket; outside of its window they are zero."""

    __slots__ = ("_matrix", "_row")

    def __init__(self, matrix: HistogramMatrix, row: int) -> None:
        self._matrix = matrix
        self._row = row

    def __getitem__(self, bucket: int) -> float:
        window = self._matrix.arena.window(self._row)
        inside = bucket - int(self._matrix.arena.base[self._row])
        return float(window[inside]) if 0 <= inside < len(window) else 0.0

    def __setitem__(self, bucket: int, weight: float) -> None:
        if weight or self[bucket]:
            self._matrix.set_weight(self._row, bucket, weight)

    def __len__(self) -> int:
        return self._matrix.scheme.count

    def __iter__(self) -> Iterator[float]:
        window = self._matrix.arena.window(self._row).tolist()
        base = int(self._matrix.arena.base[self._row])
        padded = [0.0] * base + window
        return iter(padded + [0.0] * (len(self) - len(padded)))


class RowHistogram(DecayingHistogram):
    __slots__ = ("_matrix", "_row")

    def __init__(self, matrix: HistogramMatrix, row: int) -> None:
        self._matrix = matrix
        self._row = row
        self.scheme = matrix.scheme
        self.half_life = matrix.half_life

    @property
    def weights(self) -> RowWeights:  # type: ignore[override]
        return RowWeights(self._matrix, self._row)

    @property
    def total(self) -> float:  # type: ignore[override]
        return float(self._matrix.total[self._row])

    @total.setter
    def total(self, value: float) -> None:
        self._matrix.total[self._row] = value

    @property
    def low(self) -> int:  # type: ignore[override]
        return int(self._matrix.low[self._row])

    @low.setter
    def low(self, value: int) -> None:
        self._matrix.low[self._row] = value

    @property
    def high(self) -> int:  # type: ignore[override]
        return int(self._matrix.high[self._row])

    @high.setter
    def high(self, value: int) -> None:
        self._matrix.high[self._row] = value

    @property
    def reference(self) -> Seconds:  # type: ignore[override]
        return float(self._matrix.reference[self._row])

    @reference.setter
    def reference(self, value: Seconds) -> None:
        self._matrix.reference[self._row] = value


class RowAggregate(AggregateState):
    """An aggregate whose numbers are in a row of the fleet. `release` returns the row."""

    __slots__ = ("fleet", "row")

    def __init__(self, fleet: Fleet, created: Seconds = NEVER) -> None:
        self.fleet = fleet
        self.row = fleet.new_row()
        self._settings(fleet.config, created)

    def release(self) -> None:
        self.fleet.free_row(self.row)

    @property
    def cpu(self) -> RowHistogram:  # type: ignore[override]
        return RowHistogram(self.fleet.cpu, self.row)

    @property
    def memory(self) -> RowHistogram:  # type: ignore[override]
        return RowHistogram(self.fleet.memory, self.row)

    @property
    def first(self) -> Seconds:  # type: ignore[override]
        first = float(self.fleet.first[self.row])
        return NEVER if first == float("inf") else first

    @first.setter
    def first(self, value: Seconds) -> None:
        self.fleet.first[self.row] = float("inf") if value == NEVER else value

    @property
    def last(self) -> Seconds:  # type: ignore[override]
        return float(self.fleet.last[self.row])

    @last.setter
    def last(self, value: Seconds) -> None:
        self.fleet.last[self.row] = value

    @property
    def count(self) -> int:  # type: ignore[override]
        return int(self.fleet.count[self.row])

    @count.setter
    def count(self, value: int) -> None:
        self.fleet.count[self.row] = value

    @property
    def memory_interval(self) -> Seconds:  # type: ignore[override]
        return float(self.fleet.interval[self.row])

    @memory_interval.setter
    def memory_interval(self, value: Seconds) -> None:
        self.fleet.interval[self.row] = value


class RowContainer(ContainerState):
    """A container whose numbers are in the fleet, under a handle. `release` returns the handle."""

    __slots__ = ("fleet", "handle")

    def __init__(self, fleet: Fleet, row: int) -> None:
        self.fleet = fleet
        self.handle = fleet.new_handle(row)

    def release(self) -> None:
        self.fleet.free_handle(self.handle)

    @property
    def last_cpu(self) -> Seconds:  # type: ignore[override]
        return float(self.fleet.last_cpu[self.handle])

    @last_cpu.setter
    def last_cpu(self, value: Seconds) -> None:
        self.fleet.last_cpu[self.handle] = value

    @property
    def last_memory(self) -> Seconds:  # type: ignore[override]
        return float(self.fleet.last_memory[self.handle])

    @last_memory.setter
    def last_memory(self, value: Seconds) -> None:
        self.fleet.last_memory[self.handle] = value

    @property
    def window_end(self) -> Seconds:  # type: ignore[override]
        return float(self.fleet.window_end[self.handle])

    @window_end.setter
    def window_end(self, value: Seconds) -> None:
        self.fleet.window_end[self.handle] = value

    @property
    def memory_peak(self) -> int:  # type: ignore[override]
        return int(self.fleet.memory_peak[self.handle])

    @memory_peak.setter
    def memory_peak(self, value: int) -> None:
        self.fleet.memory_peak[self.handle] = value

    @property
    def oom_peak(self) -> int:  # type: ignore[override]
        return int(self.fleet.oom_peak[self.handle])

    @oom_peak.setter
    def oom_peak(self, value: int) -> None:
        self.fleet.oom_peak[self.handle] = value
