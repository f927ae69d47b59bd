"""Where pods that matter to others are: counts of matching pods by node, and the terms that running pods carry.

Counts are made when first asked for, then kept by one comparison for each pod that comes or goes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from podfit.scheduler.decide.pods import Resident
from podfit.scheduler.decide.terms import HARD_AFFINITY_WEIGHT, Matcher, Term

if TYPE_CHECKING:
    from podfit.scheduler.decide.snapshot import Snapshot

_KEPT = 512
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tally:
    """Pods that match all of `who`; leaving ones count unless told otherwise."""

    who: tuple[Matcher, ...]
    count_terminating: bool = True


class Holders:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._counts: OrderedDict[Tally, Ints] = OrderedDict()
        self.keep_away: dict[Term, dict[int, int]] = {}
        """Required anti-affinity of running pods: how many pods of each row carry the term."""
        self.attract: dict[Term, dict[int, int]] = {}
        """Preferences of running pods for who comes near them: the sum of weights on each row."""
        self._cared: frozenset[str] | None = None
        self._cared_at = 0
        self.version = 0
        """Changes when a term appears that no pod carried before, or namespaces are labelled anew."""

    def count(self, tally: Tally) -> Ints:
        found = self._counts.get(tally)
        if found is None:
            found = self._counts[tally] = np.zeros(self._snapshot.capacity, np.int64)
            for one in self._candidates(tally):
                if self._matches(tally, one):
                    found[one.row] += 1
            if len(self._counts) > _KEPT:
                self._counts.popitem(last=False)
        else:
            self._counts.move_to_end(tally)
        return found

    def _candidates(self, tally: Tally) -> Iterable[Resident]:
        first = tally.who[0]
        for namespace, pods in self._snapshot.by_namespace.items():
            if first.covers(namespace, self._snapshot.namespaces):
                yield from pods.values()

    def _matches(self, tally: Tally, one: Resident) -> bool:
        if one.terminating and not tally.count_terminating:
            return False
        known = self._snapshot.namespaces
        return all(who.matches(one.namespace, one.labels, known) for who in tally.who)

    def arrived(self, one: Resident) -> None:
        self._moved(one, 1)

    def left(self, one: Resident) -> None:
        self._moved(one, -1)

    def _moved(self, one: Resident, sign: int) -> None:
        for tally, counts in self._counts.items():
            if self._matches(tally, one):
                counts[one.row] += sign
        terms = one.terms
        if not terms:
            return
        for term in terms.anti_affinity:
            self._carry(self.keep_away, term, one.row, sign)
        for term in terms.affinity:
            self._carry(self.attract, term, one.row, sign * HARD_AFFINITY_WEIGHT)
        for weight, term in terms.preferred:
            self._carry(self.attract, term, one.row, sign * weight)

    def _carry(self, where: dict[Term, dict[int, int]], term: Term, row: int, amount: int) -> None:
        rows = where.get(term)
        if rows is None:
            rows = where[term] = {}
            self.version += 1
        total = rows.get(row, 0) + amount
        if total:
            rows[row] = total
        else:
            rows.pop(row, None)
        if not rows:
            del where[term]
            self.version += 1

    @property
    def cared_for(self) -> frozenset[str] | None:
        """The labels that terms of running pods look at; None when no pod carries a term."""
        if self._cared_at != self.version:
            self._cared_at = self.version
            terms = [*self.keep_away, *self.attract]
            keys = frozenset(one.key for term in terms for one in term.who.selector.requirements)
            self._cared = keys if terms else None
        return self._cared

    def renamed(self) -> None:
        """Labels of a namespace changed: who matches must be found out again."""
        self._counts.clear()
        self.version += 1

    def grow(self, capacity: int) -> None:
        for tally, counts in self._counts.items():
            self._counts[tally] = np.concatenate([counts, np.zeros(capacity - len(counts), np.int64)])
