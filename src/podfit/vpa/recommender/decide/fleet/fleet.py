"""All aggregates and containers of a cluster as arrays, and the ingestion of whole scrapes.

Rows represent aggregates, handles represent containers; `ClusterState` maps them to names.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from podfit.vpa.model.times import NEVER
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.fleet.arena import Floats, Ints, grown, occurrence
from podfit.vpa.recommender.decide.fleet.matrix import HistogramMatrix
from podfit.vpa.recommender.decide.histograms import buckets
from podfit.vpa.recommender.decide.histograms.aggregate import CPU_SAMPLE_WEIGHT, MEMORY_PEAK_WEIGHT

Flags = NDArray[np.bool_]
SLICE = 16384
"""How many samples are processed at a time, so that intermediate arrays stay in the cache."""
NO_ROW = -1


class Fleet:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.cpu = HistogramMatrix(buckets.CPU, config.cpu_histogram_decay_half_life)
        self.memory = HistogramMatrix(buckets.MEMORY, config.memory_histogram_decay_half_life)
        self.first: Floats = np.zeros(0)
        """The time of each row's first CPU sample; infinite while there is none."""
        self.last: Floats = np.zeros(0)
        self.count: Ints = np.zeros(0, np.int64)
        self.interval: Floats = np.zeros(0)
        self.row: Ints = np.zeros(0, np.int64)
        self.last_cpu: Floats = np.zeros(0)
        self.last_memory: Floats = np.zeros(0)
        self.window_end: Floats = np.zeros(0)
        self.memory_peak: Ints = np.zeros(0, np.int64)
        self.oom_peak: Ints = np.zeros(0, np.int64)
        self.limit: Ints = np.zeros(0, np.int64)
        """The CPU limit in force, in millicores; 0 without one."""
        self.lowered: Floats = np.zeros(0)
        """When the limit was last lowered."""
        self.changed: Floats = np.zeros(0)
        """When the limit was last changed."""
        self.request: Ints = np.zeros(0, np.int64)
        """The CPU request in force, in millicores; 0 without one."""
        self.watched: Flags = np.zeros(0, np.bool_)
        """Rows with containers that use up their CPU limit, or did recently."""
        self.lost_row: Callable[[int], int] = lambda handle: NO_ROW
        """Finds a new row for a container whose aggregate was dropped."""
        self._seen_row: NDArray[np.int32] = np.zeros(0, np.int32)
        self._seen_handle: NDArray[np.int32] = np.zeros(0, np.int32)
        self._free_rows: list[int] = []
        self._free_handles: list[int] = []
        self._cpu_bucket = _cpu_buckets()
        self._memory_borders = _memory_borders()

    # --- rows and handles -----------------------------------------------------------------------------------------

    def new_row(self) -> int:
        if not self._free_rows:
            self._grow_rows()
        row = self._free_rows.pop()
        self.first[row], self.last[row] = np.inf, NEVER
        self.count[row] = 0
        self.interval[row] = self.config.memory_aggregation_interval
        self.watched[row] = False
        return row

    def free_row(self, row: int) -> None:
        self.cpu.clear(row)
        self.memory.clear(row)
        self.row[self.row == row] = NO_ROW
        self._free_rows.append(row)

    def new_handle(self, row: int) -> int:
        if not self._free_handles:
            self._grow_handles()
        handle = self._free_handles.pop()
        self.row[handle] = row
        for array in (self.last_cpu, self.last_memory, self.window_end):
            array[handle] = NEVER
        self.memory_peak[handle] = self.oom_peak[handle] = self.limit[handle] = self.request[handle] = 0
        self.lowered[handle] = self.changed[handle] = NEVER
        return handle

    def free_handle(self, handle: int) -> None:
        self.row[handle] = NO_ROW
        self._free_handles.append(handle)

    @property
    def nbytes(self) -> int:
        rows = (self.first, self.last, self.count, self.interval, self.watched)
        handles = (self.row, self.last_cpu, self.last_memory, self.window_end, self.memory_peak, self.oom_peak)
        limits = (self.limit, self.lowered, self.changed, self.request)
        return self.cpu.nbytes + self.memory.nbytes + sum(array.nbytes for array in (*rows, *handles, *limits))

    def _grow_rows(self) -> None:
        before = len(self.first)
        after = before + max(256, before // 8)
        self.cpu.resize_rows(after)
        self.memory.resize_rows(after)
        self.first, self.last = grown(self.first, after), grown(self.last, after)
        self.count, self.interval = grown(self.count, after), grown(self.interval, after)
        self.watched = grown(self.watched, after)
        self._seen_row = grown(self._seen_row, after)
        self._free_rows = list(range(after - 1, before - 1, -1))

    def _grow_handles(self) -> None:
        before = len(self.row)
        after = before + max(256, before // 8)
        self.row = grown(self.row, after)
        self.row[before:] = NO_ROW
        self._seen_handle = grown(self._seen_handle, after)
        self.last_cpu, self.last_memory = grown(self.last_cpu, after), grown(self.last_memory, after)
        self.window_end = grown(self.window_end, after)
        self.memory_peak, self.oom_peak = grown(self.memory_peak, after), grown(self.oom_peak, after)
        self.limit, self.lowered = grown(self.limit, after), grown(self.lowered, after)
        self.changed, self.request = grown(self.changed, after), grown(self.request, after)
        self._free_handles = list(range(after - 1, before - 1, -1))

    def set_limit(self, handle: int, millicores: int, request: int, now: float) -> None:
        """Sets the CPU limit and request of a container that are in force from now on; 0 for none."""
        before, self.request[handle] = int(self.limit[handle]), request
        if before != millicores:
            self.limit[handle], self.changed[handle] = millicores, now
            if 0 < millicores < before:
                self.lowered[handle] = now

    # --- samples --------------------------------------------------------------------------------------------------

    def ingest_cpu(self, handles: ArrayLike, instants: ArrayLike, millicores: ArrayLike) -> int:
        """Adds CPU samples. Returns how many were accepted; the others are negative, repeated or out of order."""
        return self._in_slices(self._ingest_cpu, handles, instants, millicores)

    def ingest_memory(self, handles: ArrayLike, instants: ArrayLike, amounts: ArrayLike) -> int:
        return self._in_slices(self._ingest_memory, handles, instants, amounts)

    def _in_slices(
        self,
        ingest: Callable[[Ints, Floats, Ints], int],
        handles: ArrayLike,
        instants: ArrayLike,
        values: ArrayLike,
    ) -> int:
        who = np.asarray(handles, np.int64)
        amounts = np.asarray(values, np.int64)
        when = np.broadcast_to(np.asarray(instants, np.float64), who.shape)
        accepted = 0
        for start in range(0, len(who), SLICE):
            part = slice(start, start + SLICE)
            accepted += self._once_each(ingest, who[part], when[part], amounts[part])
        return accepted

    def _once_each(self, ingest: Callable[[Ints, Floats, Ints], int], who: Ints, when: Floats, amounts: Ints) -> int:
        """Splits samples so that each container occurs once per call: a container's samples depend on each other."""
        if self._distinct(who, self._seen_handle):
            return ingest(who, when, amounts)
        ordinal = occurrence(who)
        rounds = (ordinal == number for number in range(int(ordinal.max()) + 1))
        return sum(ingest(who[chosen], when[chosen], amounts[chosen]) for chosen in rounds)

    def _ingest_cpu(self, who: Ints, when: Floats, millicores: Ints) -> int:
        good = (millicores >= 0) & (when > self.last_cpu[who])
        if not good.all():
            who, when, millicores = who[good], when[good], millicores[good]
        rows = self._rows(who)
        self.last_cpu[who] = when
        found = self._cpu_bucket[np.minimum(millicores, len(self._cpu_bucket) - 1)].astype(np.int64)
        distinct = self._distinct(rows, self._seen_row)
        self.cpu.add(rows, found, CPU_SAMPLE_WEIGHT, when, distinct)
        earlier = when < self.first[rows]
        if earlier.any():
            np.minimum.at(self.first, rows[earlier], when[earlier])
        if distinct:
            self.last[rows] = np.maximum(self.last[rows], when)
            self.count[rows] += 1
        else:
            np.maximum.at(self.last, rows, when)
            np.add.at(self.count, rows, 1)
        return len(who)

    def _ingest_memory(self, who: Ints, when: Floats, amounts: Ints) -> int:
        good = (amounts >= 0) & (when >= self.last_memory[who])
        if not good.all():
            who, when, amounts = who[good], when[good], amounts[good]
        accepted = len(who)
        self.last_memory[who] = when
        ends = self.window_end[who]
        ends = np.where(ends == NEVER, when, ends)
        peaks = np.maximum(self.memory_peak[who], self.oom_peak[who])
        over = when >= ends
        changed = over | ((peaks != 0) & (amounts > peaks))
        if changed.any():
            who, when, amounts, ends, peaks, over = (
                array[changed] for array in (who, when, amounts, ends, peaks, over)
            )
            self._change_peaks(who, when, amounts, ends, peaks, over)
        return accepted

    def _change_peaks(self, who: Ints, when: Floats, amounts: Ints, ends: Floats, peaks: Ints, over: Flags) -> None:
        """Adds the first sample of a new window, or replaces the window's peak by a higher sample."""
        rows = self._rows(who)
        interval = self.interval[rows]
        ends = np.where(over, ends + np.floor((when - ends) / interval) * interval + interval, ends)
        self.window_end[who] = ends
        self.memory_peak[who] = amounts
        self.oom_peak[who[over]] = 0
        before, after = self.memory_buckets(peaks), self.memory_buckets(amounts)
        # Containers may share a row, whose changes are then applied one after the other.
        ordinal = occurrence(rows)
        for number in range(int(ordinal.max()) + 1):
            chosen = ordinal == number
            higher = chosen & ~over
            if higher.any():
                self.memory.subtract(rows[higher], before[higher], MEMORY_PEAK_WEIGHT, ends[higher])
            self.memory.add(rows[chosen], after[chosen], MEMORY_PEAK_WEIGHT, ends[chosen], distinct=True)

    @staticmethod
    def _distinct(values: Ints, scratch: NDArray[np.int32]) -> bool:
        """Whether no value repeats. If so, each one is still the last that wrote to its place."""
        order = np.arange(len(values), dtype=np.int32)
        scratch[values] = order
        return bool((scratch[values] == order).all())

    def _rows(self, who: Ints) -> Ints:
        rows = self.row[who]
        if len(rows) and rows.min() == NO_ROW:
            for at in np.flatnonzero(rows == NO_ROW).tolist():
                rows[at] = self.row[who[at]] = self.lost_row(int(who[at]))
        return rows

    def memory_buckets(self, amounts: Ints) -> Ints:
        return np.searchsorted(self._memory_borders, amounts, side="right")


def _cpu_buckets() -> NDArray[np.uint8]:
    """The bucket of every whole number of millicores up to the last border."""
    scheme = buckets.CPU
    borders = [scheme.first_whole_value(bucket, 1000.0) for bucket in range(1, scheme.count)]
    return np.searchsorted(np.array(borders), np.arange(borders[-1] + 1), side="right").astype(np.uint8)


def _memory_borders() -> Ints:
    """The first whole number of bytes of every bucket but the lowest."""
    scheme = buckets.MEMORY
    return np.array([scheme.first_whole_value(bucket, 1.0) for bucket in range(1, scheme.count)], np.int64)
