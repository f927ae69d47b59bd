"""Inter-pod affinity, anti-affinity and topology spread: the nodes they rule out, and their scores.

Everything is counted by domain of a topology key; a pod's own terms and those of running pods both count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from podfit.scheduler.decide.cluster.holders import CountedAmounts, MatchingPods
from podfit.scheduler.decide.cluster.snapshot import Snapshot
from podfit.scheduler.decide.fit.reasons import Code
from podfit.scheduler.decide.pod.pods import PodShape
from podfit.scheduler.decide.pod.terms import HOSTNAME, Matcher, Spread, Term

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Codes = NDArray[np.int8]


Masks = Callable[[], tuple[Bools, Bools]]
"""Nodes that the pod's selector allows, and nodes whose taints it tolerates."""


class Domains(NamedTuple):
    spread: Spread
    eligible: Ints | None
    """1 for rows whose pods count, 0 for others; None if all count."""
    domains: Ints
    missing: Bools | None
    """Nodes without the topology key; None if there are none."""


class Relations:
    """One shape's relations; cheap to query again after pods moved."""

    def __init__(self, shape: PodShape, snapshot: Snapshot) -> None:
        self._shape, self._snapshot = shape, snapshot
        self._hard = [spread for spread in shape.spreads if spread.hard]
        self._spreads_softly = bool(shape.defaults) or len(self._hard) < len(shape.spreads)
        self._version = -1
        self._repelled_by: list[Term] = []
        self._wanted_by: list[Term] = []
        self._counted: dict[int, CountedAmounts] = {}
        self._domains_at = (-1, 0)
        self._domains_known: list[Domains] = []

    @property
    def active(self) -> bool:
        """Whether any relation may rule out a node now."""
        self._refresh()
        return bool(self._shape.relational or self._repelled_by)

    @property
    def preferring(self) -> bool:
        return self._spreads_softly or self.has_preferences

    @property
    def has_preferences(self) -> bool:
        """Whether this pod or running ones prefer to be near or away from each other."""
        self._refresh()
        return bool(self._shape.terms.preferred or self._wanted_by)

    def _refresh(self) -> None:
        holders = self._snapshot.holders
        if self._version == holders.version:
            return
        self._version = holders.version
        self._repelled_by = [term for term in holders.keep_away if self._selects_pod(term)]
        self._wanted_by = [term for term in holders.attract if self._selects_pod(term)]

    def _selects_pod(self, term: Term) -> bool:
        return term.who.matches(self._shape.namespace, self._shape.labels, self._snapshot.namespaces)

    def codes(self, masks: Masks) -> Codes:
        """For each row the first relation that rules it out. The masks select the nodes that count for spreading."""
        codes = np.zeros(self._snapshot.capacity, np.int8)
        for refused, code in self._refusals(masks):
            np.putmask(codes, refused, int(code))
        return codes

    def ruled_out(self, masks: Masks) -> Bools | None:
        """The rows with a code, for callers that need no codes; None if there are none. Not to be written to."""
        found: Bools | None = None
        for refused, _ in self._refusals(masks):
            found = refused if found is None else found | refused
        return found

    def _refusals(self, masks: Masks) -> Iterator[tuple[Bools, Code]]:
        """Yields rows and codes in reverse order of the checks: the code of the first check is written last, and
        stays."""
        self._refresh()
        for term in self._repelled_by:
            carried = self._snapshot.holders.keep_away[term]
            yield self._beside(term.topology_key, carried), Code.EXISTING_ANTI_AFFINITY
        for term in self._shape.terms.anti_affinity:
            yield self._beside(term.topology_key, self._count(term, (term.who,))), Code.ANTI_AFFINITY
        if self._shape.terms.affinity:
            yield ~self._affine(), Code.AFFINITY
        if self._hard:
            yield from self._spread_refusals(masks)

    def _count(self, about: Term | Spread, who: tuple[Matcher, ...], terminating: bool = True) -> CountedAmounts:
        """The matching pods, cached by the identity of the term: hashing a term costs more than reading it."""
        found = self._counted.get(id(about))
        if found is None or found.stale:
            found = self._counted[id(about)] = self._snapshot.tally(MatchingPods(who, terminating))
        return found

    def _beside(self, key: str, counted: CountedAmounts) -> Bools:
        """The nodes in the same domains as matching pods."""
        beside: Bools = (counted.by_domain(key) > 0)[self._snapshot.topology.of(key)]
        return beside

    def _near(self, key: str, counted: CountedAmounts) -> Ints:
        near: Ints = counted.by_domain(key)[self._snapshot.topology.of(key)]
        return near

    def _affine(self) -> Bools:
        terms = self._shape.terms.affinity
        counted = self._count(terms[0], tuple(term.who for term in terms))
        found = np.ones(self._snapshot.capacity, np.bool_)
        anybody = False
        for term in terms:
            near = self._near(term.topology_key, counted)
            anybody = anybody or bool(near.any())
            found &= near > 0
        if not anybody and all(self._selects_pod(term) for term in terms):
            # The first pod of a group with affinity to itself fits every node that has the topology key.
            found = np.ones(self._snapshot.capacity, np.bool_)
            for term in terms:
                found &= self._snapshot.topology.of(term.topology_key) >= 0
        return found

    def _spread_refusals(self, masks: Masks) -> Iterator[tuple[Bools, Code]]:
        topology = self._snapshot.topology
        for spread, eligible, domains, missing in reversed(self._domains(self._hard, masks)):
            key, counted = spread.topology_key, self.matching(spread)
            by_domain = (
                counted.by_domain(key)
                if eligible is None
                else np.append(topology.sum(key, counted.by_row * eligible), 0)
            )
            least = 0 if len(domains) < max(spread.min_domains, 1) else int(by_domain[domains].min())
            full = by_domain + (int(spread.matches_self) - least) > spread.max_skew
            full[-1] = False
            if full.any():
                yield full[topology.of(key)], Code.SPREAD
            if missing is not None:
                yield missing, Code.SPREAD_LABEL

    def _domains(self, hard: list[Spread], masks: Masks) -> list[Domains]:
        """The part of the constraints that changes only with the nodes."""
        position = (self._snapshot.reshaped.position, self._snapshot.capacity)
        if self._domains_at != position:
            self._domains_at = position
            selected, untainted = masks()
            topology, alive = self._snapshot.topology, self._snapshot.alive
            all_keys = alive.copy()
            for spread in hard:
                all_keys &= topology.of(spread.topology_key) >= 0
            self._domains_known = []
            for spread in hard:
                ids = topology.of(spread.topology_key)
                eligible = all_keys & self._eligible(spread, selected, untainted)
                missing = alive & (ids < 0)
                self._domains_known.append(
                    Domains(
                        spread,
                        None if (eligible == alive).all() else eligible.astype(np.int64),
                        np.unique(ids[eligible]),
                        missing if missing.any() else None,
                    )
                )
        return self._domains_known

    @staticmethod
    def _eligible(spread: Spread, selected: Bools, untainted: Bools) -> Bools:
        eligible = np.ones(len(selected), np.bool_)
        if spread.honor_affinity:
            eligible &= selected
        if spread.honor_taints:
            eligible &= untainted
        return eligible

    def matching(self, spread: Spread) -> CountedAmounts:
        return self._count(spread, (spread.who,), terminating=False)

    def soft_spreads(self, masks: Masks) -> list[tuple[Spread, Ints]]:
        selected, untainted = masks()
        return [
            (spread, np.where(self._eligible(spread, selected, untainted), self.matching(spread).by_row, 0))
            for spread in self._shape.spreads
            if not spread.hard
        ]

    def default_spreads(self, selected: Bools | None) -> list[tuple[Spread, Ints]]:
        """Each default constraint with its matching pods, by row for nodes and by domain for larger ones.

        `selected`: the nodes whose pods count; None if all do.
        """
        topology = self._snapshot.topology
        found = []
        for spread in self._shape.defaults:
            key, counted = spread.topology_key, self.matching(spread)
            if key == HOSTNAME:
                found.append((spread, counted.by_row))
            elif selected is None:
                found.append((spread, counted.by_domain(key)))
            else:
                found.append((spread, np.append(topology.sum(key, counted.by_row * selected), 0)))
        return found

    def preference_scores(self) -> Ints | None:
        """The sum of the preferences of this pod and the running ones, by row; None if no pod prefers anything."""
        if not self.has_preferences:
            return None
        total = np.zeros(self._snapshot.capacity, np.int64)
        for weight, term in self._shape.terms.preferred:
            total += weight * self._near(term.topology_key, self._count(term, (term.who,)))
        for term in self._wanted_by:
            total += self._near(term.topology_key, self._snapshot.holders.attract[term])
        return total
