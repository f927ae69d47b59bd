"""Counts matching pods by node, and the affinity terms of running pods.

Pods with the same labels in the same namespace form a group: a match is evaluated once for all of them. A count is
computed on first use, from the groups, and then updated by one addition for each pod added or removed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from podfit.scheduler.decide.cluster.topology import Topology
from podfit.scheduler.decide.pod.terms import HARD_AFFINITY_WEIGHT, Matcher, Term

if TYPE_CHECKING:
    from podfit.scheduler.decide.cluster.snapshot import Snapshot
    from podfit.scheduler.decide.pod.pods import BoundPod

_KEPT = 1024
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MatchingPods:
    """Pods that match all of `who`; terminating ones count unless `terminating` is false."""

    who: tuple[Matcher, ...]
    count_terminating: bool = True


class CountedAmounts:
    """Amounts by row, and summed by domain for each topology key in use."""

    __slots__ = ("_by_domain", "_topology", "_version", "by_row", "stale")

    def __init__(self, topology: Topology, by_row: Ints) -> None:
        self.by_row = by_row
        self.stale = False
        """Whether the amounts are no longer updated; the owner must then request new ones."""
        self._topology, self._version = topology, -1
        self._by_domain: dict[str, Ints] = {}

    def add(self, row: int, amount: int) -> None:
        self.by_row[row] += amount
        if self._by_domain and self._version == self._topology.version:
            for key, sums in self._by_domain.items():
                at = self._topology.of(key)[row]
                if at >= 0:
                    sums[at] += amount

    def by_domain(self, key: str) -> Ints:
        """The amounts by domain, with one additional entry, always 0, for nodes that are in no domain."""
        if self._version != self._topology.version:
            self._by_domain.clear()
            self._version = self._topology.version
        found = self._by_domain.get(key)
        if found is None:
            found = np.append(self._topology.sum(key, self.by_row), 0)
            self._by_domain[key] = found
        return found


@dataclass(slots=True, eq=False)
class LabelledPods:
    namespace: str
    labels: Mapping[str, str]
    terminating: bool
    rows: dict[int, int] = field(default_factory=dict)
    """The number of these pods on each row."""
    counts: list[CountedAmounts] = field(default_factory=list)
    """The counts that include these pods."""


Kind = tuple[str, frozenset[tuple[str, str]], bool]


class Holders:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._labelled: dict[Kind, LabelledPods] = {}
        self._counts: OrderedDict[MatchingPods, CountedAmounts] = OrderedDict()
        self.keep_away: dict[Term, CountedAmounts] = {}
        """Required anti-affinity of running pods: how many pods of each row carry the term."""
        self.attract: dict[Term, CountedAmounts] = {}
        """Preferences of running pods for pods near them: the sum of weights on each row."""
        self._carriers: dict[tuple[int, Term], int] = {}
        self._selected: frozenset[str] | None = None
        self._selected_at = 0
        self.version = 0
        """A counter that changes when a term appears that no pod had before, or labels of a namespace change."""

    # --- matching
    def count(self, tally: MatchingPods) -> CountedAmounts:
        found = self._counts.get(tally)
        if found is None:
            found = self._counts[tally] = self._empty()
            for pods in self._labelled.values():
                if self._matches(tally, pods):
                    pods.counts.append(found)
                    for row, amount in pods.rows.items():
                        found.by_row[row] += amount
            if len(self._counts) > _KEPT:
                self._forget(self._counts.popitem(last=False)[1])
        return found

    def _empty(self) -> CountedAmounts:
        return CountedAmounts(self._snapshot.topology, np.zeros(self._snapshot.capacity, np.int64))

    def _forget(self, counted: CountedAmounts) -> None:
        counted.stale = True
        for pods in self._labelled.values():
            if counted in pods.counts:
                pods.counts.remove(counted)

    def _matches(self, tally: MatchingPods, pods: LabelledPods) -> bool:
        if pods.terminating and not tally.count_terminating:
            return False
        known = self._snapshot.namespaces
        return all(who.matches(pods.namespace, pods.labels, known) for who in tally.who)

    def _labelled_of(self, kind: Kind, pod: BoundPod) -> LabelledPods:
        pods = self._labelled.get(kind)
        if pods is None:
            pods = self._labelled[kind] = LabelledPods(pod.namespace, pod.labels, pod.terminating)
            pods.counts = [counted for tally, counted in self._counts.items() if self._matches(tally, pods)]
        return pods

    # --- pods added and removed
    def arrived(self, pod: BoundPod) -> None:
        self._moved(pod, 1)

    def left(self, pod: BoundPod) -> None:
        self._moved(pod, -1)

    def _moved(self, pod: BoundPod, sign: int) -> None:
        kind = (pod.namespace, frozenset(pod.labels.items()), pod.terminating)
        pods, row = self._labelled_of(kind, pod), pod.row
        amount = pods.rows.get(row, 0) + sign
        if amount:
            pods.rows[row] = amount
        else:
            del pods.rows[row]
            if not pods.rows:
                del self._labelled[kind]
        for counted in pods.counts:
            counted.add(row, sign)
        terms = pod.terms
        if not terms:
            return
        for term in terms.anti_affinity:
            self._carry(self.keep_away, term, row, sign, sign)
        for term in terms.affinity:
            self._carry(self.attract, term, row, sign * HARD_AFFINITY_WEIGHT, sign)
        for weight, term in terms.preferred:
            self._carry(self.attract, term, row, sign * weight, sign)

    def _carry(self, where: dict[Term, CountedAmounts], term: Term, row: int, amount: int, sign: int) -> None:
        counted = where.get(term)
        if counted is None:
            counted = where[term] = self._empty()
            self.version += 1
        counted.add(row, amount)
        who = (id(where), term)
        carriers = self._carriers.get(who, 0) + sign
        if carriers:
            self._carriers[who] = carriers
        else:
            self._carriers.pop(who, None)
            del where[term]
            self.version += 1

    @property
    def selected_keys(self) -> frozenset[str] | None:
        """The label keys that affinity terms of running pods select by; None if no running pod has a term."""
        if self._selected_at != self.version:
            self._selected_at = self.version
            terms = [*self.keep_away, *self.attract]
            keys = frozenset(requirement.key for term in terms for requirement in term.who.selector.requirements)
            self._selected = keys if terms else None
        return self._selected

    def renamed(self) -> None:
        """Discards all counts after labels of a namespace changed: matches must be evaluated again."""
        for counted in self._counts.values():
            counted.stale = True
        self._counts.clear()
        for pods in self._labelled.values():
            pods.counts.clear()
        self.version += 1

    def grow(self, capacity: int) -> None:
        for counted in (*self._counts.values(), *self.keep_away.values(), *self.attract.values()):
            more = np.zeros(capacity - len(counted.by_row), np.int64)
            counted.by_row = np.concatenate([counted.by_row, more])
