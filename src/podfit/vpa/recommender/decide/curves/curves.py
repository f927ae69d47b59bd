"""The usage of autoscalers' containers, slot by slot: that of the pod with the highest usage, for at most eleven days.

A slot is five minutes. Samples of one pod within a slot are combined: the mean of its CPU, the maximum of its memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.history.base import NONE
from podfit.vpa.model.times import Seconds
from podfit.vpa.recommender.decide.curves.codes import Codes, amounts_of, as_text, code_of, coded, from_text
from podfit.vpa.recommender.decide.fleet.arena import Floats, Ints, grown
from podfit.vpa.recommender.decide.fleet.fleet import NO_ROW, Fleet
from podfit.vpa.recommender.decide.histograms.cluster import VpaId

SLOT_S = 300.0
HOUR, DAY = 12, 288
DAYS = 10
SLOTS = (DAYS + 1) * DAY
"""Ten days, and the current one: windows begin at whole days, so that all sizes of a day follow from one another."""


class CurveKey(NamedTuple):
    vpa: VpaId
    container: str


def slot_of(instant: Seconds) -> int:
    return int(instant // SLOT_S)


class Curves:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.numbers: dict[CurveKey, int] = {}
        self._free: list[int] = []
        self._codes: dict[str, Codes] = {name: np.zeros((0, SLOTS), np.uint16) for name in ("cpu", "memory")}
        self.phase: Ints = np.zeros(0, np.int64)
        self.first: Ints = np.zeros(0, np.int64)
        """The slot of each curve's first sample; larger than any slot while there is none."""
        self._latest = -1
        """The newest slot with a column; columns are reused after `SLOTS` slots."""
        self._pairs: tuple[Ints, Ints] = np.zeros(0, np.int64), np.zeros(0, np.int64)
        """Rows of the fleet, ascending, and the curves that they belong to."""
        self._slot: Ints = np.zeros(0, np.int64)
        self._row: Ints = np.zeros(0, np.int64)
        self._sum: Floats = np.zeros(0)
        self._count: Ints = np.zeros(0, np.int64)
        self._peak: Ints = np.zeros(0, np.int64)

    # --- the set of curves

    def keep(self, wanted: Mapping[CurveKey, Iterable[int]]) -> None:
        """Keeps curves of these containers, each with the rows of the fleet that its samples are added to; other curves
        are dropped."""
        for key in [key for key in self.numbers if key not in wanted]:
            self._free.append(self.numbers.pop(key))
        pairs = [(row, self._number(key)) for key, rows in wanted.items() for row in rows]
        pairs.sort()
        both = np.array(pairs, np.int64).reshape(-1, 2)
        self._pairs = both[:, 0].copy(), both[:, 1].copy()

    def _number(self, key: CurveKey) -> int:
        found = self.numbers.get(key)
        if found is None:
            if not self._free:
                self._grow()
            found = self.numbers[key] = self._free.pop()
            for codes in self._codes.values():
                codes[found] = 0
            self.phase[found] = crc32("/".join((*key.vpa, key.container)).encode()) % HOUR
            self.first[found] = np.iinfo(np.int64).max
        return found

    def _grow(self) -> None:
        before = len(self.phase)
        after = before + max(64, before // 4)
        for name, codes in self._codes.items():
            self._codes[name] = np.concatenate([codes, np.zeros((after - before, SLOTS), np.uint16)])
        self.phase, self.first = grown(self.phase, after), grown(self.first, after)
        self._free = list(range(after - 1, before - 1, -1))

    @property
    def nbytes(self) -> int:
        return sum(codes.nbytes for codes in self._codes.values())

    # --- samples

    def take(self, handles: Ints, instants: Floats, cpu: Ints, memory: Ints) -> None:
        """Adds samples in order of time. `handles` are those of the fleet, NONE for an unknown container."""
        good = (handles != NONE) & ((cpu != NONE) | (memory != NONE))
        if not len(self._pairs[0]) or not good.any():
            return
        self._follow(len(self._fleet.row))
        slots = (instants // SLOT_S).astype(np.int64)
        for slot in np.unique(slots[good]).tolist():
            now = good & (slots == slot)
            who = handles[now]
            other = (self._slot[who] < slot) | (self._row[who] != self._fleet.row[who])
            if other.any():
                self._begin(np.unique(who[other]), slot)
            # Samples before a container's current slot are too late.
            mine = self._slot[who] == slot
            self._add(who[mine], cpu[now][mine], memory[now][mine])

    def _follow(self, handles: int) -> None:
        if handles > len(self._slot):
            self._slot, self._row = grown(self._slot, handles), grown(self._row, handles)
            self._sum, self._count, self._peak = (
                grown(self._sum, handles),
                grown(self._count, handles),
                grown(self._peak, handles),
            )

    def _begin(self, who: Ints, slot: int) -> None:
        self._enter(who)
        self._slot[who], self._row[who] = slot, self._fleet.row[who]
        self._sum[who], self._count[who], self._peak[who] = 0.0, 0, 0

    def _add(self, who: Ints, cpu: Ints, memory: Ints) -> None:
        known = cpu != NONE
        np.add.at(self._sum, who[known], cpu[known] / 1000.0)
        np.add.at(self._count, who[known], 1)
        np.maximum.at(self._peak, who, memory)

    def settle(self, now: int) -> None:
        """Completes the slots before `now`, whether or not later samples arrived."""
        done = np.flatnonzero((self._slot < now) & ((self._count > 0) | (self._peak > 0)))
        self._enter(done)
        self._count[done], self._peak[done] = 0, 0

    def _enter(self, who: Ints) -> None:
        who = who[((self._count[who] > 0) | (self._peak[who] > 0)) & (self._row[who] != NO_ROW)]
        if not len(who):
            return
        rows, curves = self._pairs
        begin, end = (np.searchsorted(rows, self._row[who], side) for side in ("left", "right"))
        times = end - begin
        which = np.repeat(np.arange(len(who)), times)
        offset = np.arange(len(which)) - np.repeat(np.cumsum(times) - times, times)
        into, slots = curves[begin[which] + offset], self._slot[who][which]
        cores = self._sum[who] / np.where(self._count[who] > 0, self._count[who], np.nan)
        peak = np.where(self._peak[who] > 0, self._peak[who].astype(np.float64), np.nan)
        for name, amounts in (("cpu", cores), ("memory", peak)):
            self._put(name, into, slots, coded(amounts, name)[which])

    def _put(self, resource: str, curves: Ints, slots: Ints, codes: Codes) -> None:
        if not len(slots):
            return
        self._advance(int(slots.max()))
        kept = (slots > self._latest - SLOTS) & (codes > 0)
        np.maximum.at(self._codes[resource], (curves[kept], slots[kept] % SLOTS), codes[kept])
        np.minimum.at(self.first, curves[kept], slots[kept])

    def _advance(self, slot: int) -> None:
        """Clears the columns from the latest slot up to this one."""
        if slot <= self._latest:
            return
        fresh = np.arange(max(self._latest + 1, slot - SLOTS + 1), slot + 1) % SLOTS
        for codes in self._codes.values():
            codes[:, fresh] = 0
        self._latest = slot

    def killed(self, row: int, slot: int, memory: int) -> list[int]:
        """Records an out-of-memory kill that counts as this much memory; returns the affected curves."""
        rows, curves = self._pairs
        into = curves[np.searchsorted(rows, row) : np.searchsorted(rows, row, "right")]
        codes = np.full(len(into), code_of(float(memory), "memory"), np.uint16)
        self._put("memory", into, np.full(len(into), slot, np.int64), codes)
        return [int(number) for number in into]

    # --- reading

    def begins(self, curves: Ints, until: int) -> Ints:
        """The first slot of each curve's window: a multiple of a day plus the curve's phase, not after its first
        sample."""
        first = np.maximum(self.first[curves], until - SLOTS + DAY)
        return (first - self.phase[curves]) // DAY * DAY + self.phase[curves]

    def usage(self, curves: Ints, begin: int, until: int, resource: str) -> NDArray[np.float32]:
        """The usage [curve, slot] in cores or bytes, from `begin` to before `until`; NaN if unknown."""
        self._advance(until - 1)
        columns = np.arange(begin, until)
        there = columns > self._latest - SLOTS
        codes = self._codes[resource][curves[:, None], (columns % SLOTS)[None, :]]
        return amounts_of(np.where(there, codes, np.uint16(0)), resource)

    # --- restarts

    def saved(self, key: CurveKey) -> str:
        """The curve as text; empty if it has no samples."""
        number = self.numbers.get(key)
        if number is None or self.first[number] > self._latest:
            return ""
        begin = max(int(self.first[number]), self._latest - SLOTS + 1)
        columns = np.arange(begin, self._latest + 1) % SLOTS
        return as_text(begin, self._codes["cpu"][number, columns], self._codes["memory"][number, columns])

    def restore(self, key: CurveKey, text: str, now: int) -> None:
        """Restores a saved curve, if the container is kept; samples from the future are dropped. Raises BadCurve."""
        begin, cpu, memory = from_text(text, SLOTS)
        number = self.numbers.get(key)
        if number is None:
            return
        slots = np.arange(begin, begin + len(cpu))
        known = slots <= now
        for name, codes in (("cpu", cpu), ("memory", memory)):
            self._put(name, np.full(int(known.sum()), number), slots[known], codes[known])
