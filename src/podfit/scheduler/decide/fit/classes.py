"""Groups rows that are equal for default spread constraints into classes, so that classes are scored instead of rows.

A default constraint counts the family's pods on the node, or in the larger domain of the node. Nodes with equal counts
in the same domains score alike, and there are few such classes however many nodes there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import add

import numpy as np
from numpy.typing import NDArray

from podfit.scheduler.decide.cluster.holders import CountedAmounts
from podfit.scheduler.decide.cluster.snapshot import Snapshot
from podfit.scheduler.decide.fit.scores import MAX
from podfit.scheduler.decide.pod.terms import HOSTNAME, Spread

Ints = NDArray[np.int64]
Live = tuple[list[int], list[list[int]]]
"""Classes that have members: their numbers, and by constraint their traits."""
Traits = tuple[int, ...]
"""By constraint the node's trait: how many pods of the family, or which domain. -1: the node lacks the label."""
_FEW = 8
"""Up to this number rows are moved one by one; more are renumbered all at once."""
_MOST = 128
"""With more classes than that it is faster to compare rows."""
NO_CLASS = 0
"""The number of rows that do not fit the pod."""


class Classes:
    """The class of each row that fits a pod.

    A row's class changes only with its pods and its node: the snapshot's logs list the rows to check again, and a
    changed node invalidates all classes.
    """

    def __init__(self, snapshot: Snapshot, spreads: tuple[Spread, ...]) -> None:
        self._snapshot, self._spreads = snapshot, spreads
        self._made_of: tuple[object, ...] = ()
        self._changed = 0
        self._traits: list[Traits] = []
        self._members: list[int] = []
        self._numbers: dict[Traits, int] = {}
        self._live: Live | None = None
        """Stale when a class gets its first member or loses its last."""
        self._of_row: Ints = np.zeros(0, np.int64)

    def sync(self, ranked: Ints, counted: Sequence[CountedAmounts]) -> bool:
        """Processes changed rows; False if there are too many classes to be worth it."""
        snapshot = self._snapshot
        made_of = (snapshot.reshaped.position, snapshot.capacity, *counted)
        rows = snapshot.changed.since(self._changed) if made_of == self._made_of else None
        if rows is None or len(rows) > _FEW or len(self._traits) + len(rows) > _MOST:
            self._made_of = made_of if self._number_all(ranked, counted) else ()
        else:
            for row in rows:
                self._move(row, ranked, counted)
        self._changed = snapshot.changed.position
        return bool(self._made_of)

    def scores(self, by_domain: Sequence[Ints], weight: int = 1) -> Ints:
        """The result of `scores.spreading_by_default` for every row, and 0 for rows that do not fit the pod."""
        of_class = [0] * len(self._members)
        live, columns = self._live or self._find_live()
        if live:
            raw = self._raw(columns, by_domain)
            high, low = max(raw), min(raw)
            for number, near in zip(live, raw, strict=True):
                of_class[number] = (MAX * (high + low - near) // high if high else MAX) * weight
        return np.array(of_class, np.int64).take(self._of_row)

    def _find_live(self) -> Live:
        live = [number for number, members in enumerate(self._members) if members]
        columns = [[self._traits[number][at] for number in live] for at in range(len(self._spreads))]
        self._live = live, columns
        return self._live

    def _raw(self, columns: list[list[int]], by_domain: Sequence[Ints]) -> list[int]:
        """The number of pods of the family in the same domains, by class: fewer are better."""
        found: list[float] = []
        flat = 0.5
        for spread, here, counts in zip(self._spreads, columns, by_domain, strict=True):
            kinds, some = set(here), float(spread.max_skew - 1)
            if spread.topology_key == HOSTNAME:
                times = math.log(sum(self._members) + 2)
                if self._snapshot.topology.everywhere(HOSTNAME):
                    flat, some = flat + some, 0.0
                near = {trait: trait * times + some for trait in kinds}
            else:
                times, of = math.log(len(kinds) + 2), counts.tolist()
                near = {trait: of[trait] * times + some for trait in kinds}
            near[-1] = 0.0
            more = [near[trait] for trait in here]
            found = list(map(add, found, more)) if found else more
        return [int(combination + flat) for combination in found]

    # --- numbering
    def _move(self, row: int, ranked: Ints, counted: Sequence[CountedAmounts]) -> None:
        before, after = int(self._of_row[row]), NO_CLASS
        if ranked[row] >= 0:
            traits = tuple(
                self._trait(row, spread.topology_key, count)
                for spread, count in zip(self._spreads, counted, strict=True)
            )
            after = self._numbers.get(traits, NO_CLASS) or self._add(traits)
        if before != after:
            self._of_row[row] = after
            self._count(before, -1)
            self._count(after, 1)

    def _count(self, number: int, more: int) -> None:
        if number == NO_CLASS:
            return
        members = self._members[number]
        self._members[number] = members + more
        if not members or not members + more:
            self._live = None

    def _trait(self, row: int, key: str, counted: CountedAmounts) -> int:
        domain = self._snapshot.topology.of(key)[row]
        return int(counted.by_row[row] if key == HOSTNAME and domain >= 0 else domain)

    def _add(self, traits: Traits) -> int:
        number = self._numbers[traits] = len(self._traits)
        self._traits.append(traits)
        self._members.append(0)
        return number

    def _number_all(self, ranked: Ints, counted: Sequence[CountedAmounts]) -> bool:
        topology, columns, widths = self._snapshot.topology, [], []
        for spread, count in zip(self._spreads, counted, strict=True):
            ids = topology.of(spread.topology_key)
            columns.append(np.where(ids >= 0, count.by_row, ids) if spread.topology_key == HOSTNAME else ids)
            widths.append(int(columns[-1].max(initial=0)) + 2)
        size = math.prod(widths)
        if size > max(len(ranked), _MOST):
            return False
        # Traits are the digits of a number per row; the distinct numbers are then mapped to small ones.
        digits = np.ravel_multi_index([column + 1 for column in columns], widths)
        rows = np.bincount(digits[ranked >= 0], minlength=size)
        found = np.flatnonzero(rows)
        if len(found) >= _MOST - _FEW:
            return False
        self._traits, self._members, self._numbers, self._live = [()], [0], {}, None
        for traits in zip(*(axis.tolist() for axis in np.unravel_index(found, widths)), strict=True):
            self._add(tuple(trait - 1 for trait in traits))
        self._members[1:] = rows[found].tolist()
        small = np.zeros(size, np.int64)
        small[found] = np.arange(1, len(found) + 1)
        self._of_row = np.where(ranked >= 0, small[digits], NO_CLASS)
        return True
