"""Pods that want to be near, away from, or spread among others: which nodes their wishes leave.

Everything is counted by domain of a topology key; a pod's own wishes and those of running pods both count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from podfit.scheduler.decide.holders import Tally
from podfit.scheduler.decide.pods import Shape
from podfit.scheduler.decide.reasons import Code
from podfit.scheduler.decide.snapshot import Snapshot
from podfit.scheduler.decide.terms import Spread, Term

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Codes = NDArray[np.int8]


Masks = Callable[[], tuple[Bools, Bools]]
"""Nodes that the pod's selector allows, and nodes whose taints it tolerates."""


class Domains(NamedTuple):
    spread: Spread
    eligible: Ints | None
    """1 for rows whose pods count, 0 for others; None when all count."""
    domains: Ints
    missing: Bools | None
    """Nodes without the topology key; None when there are none."""


class Relations:
    """One shape's relations; cheap to ask again after pods moved."""

    def __init__(self, shape: Shape, snapshot: Snapshot) -> None:
        self._shape, self._snapshot = shape, snapshot
        self._version = -1
        self._kept_away_by: list[Term] = []
        self._wanted_by: list[Term] = []
        self._domains_at = (-1, 0)
        self._domains_known: list[Domains] = []

    @property
    def active(self) -> bool:
        """Whether any relation may rule out a node now."""
        self._refresh()
        return bool(self._shape.relational or self._kept_away_by)

    @property
    def preferring(self) -> bool:
        self._refresh()
        soft = any(not spread.hard for spread in self._shape.spreads)
        return bool(soft or self._shape.terms.preferred or self._wanted_by)

    def _refresh(self) -> None:
        holders = self._snapshot.holders
        if self._version == holders.version:
            return
        self._version = holders.version
        self._kept_away_by = [term for term in holders.keep_away if self._about_me(term)]
        self._wanted_by = [term for term in holders.attract if self._about_me(term)]

    def _about_me(self, term: Term) -> bool:
        return term.who.matches(self._shape.namespace, self._shape.labels, self._snapshot.namespaces)

    def codes(self, masks: Masks) -> Codes:
        """For each row the first relation that rules it out. The masks tell which nodes count for spreading."""
        self._refresh()
        codes = np.zeros(self._snapshot.capacity, np.int8)
        # Written from the last to be asked to the first, so that the first refusal is the one that stays.
        for term in self._kept_away_by:
            rows = np.fromiter(self._snapshot.holders.keep_away[term], np.intp)
            codes[self._beside(term.topology_key, rows)] = Code.EXISTING_ANTI_AFFINITY
        for term in self._shape.terms.anti_affinity:
            rows = np.flatnonzero(self._snapshot.tally(Tally((term.who,))))
            if len(rows):
                codes[self._beside(term.topology_key, rows)] = Code.ANTI_AFFINITY
        if self._shape.terms.affinity:
            codes[~self._affine()] = Code.AFFINITY
        hard = [spread for spread in self._shape.spreads if spread.hard]
        if hard:
            self._spread_codes(hard, codes, masks)
        return codes

    def _beside(self, key: str, rows: NDArray[np.intp]) -> Bools:
        """Nodes in the domains of the rows."""
        topology = self._snapshot.topology
        ids = topology.of(key)
        # One more slot than domains: nodes in no domain have the number -1, which is that slot.
        held = np.zeros(topology.size(key) + 1, np.bool_)
        held[ids[rows]] = True
        held[-1] = False
        beside: Bools = held[ids]
        return beside

    def _near(self, term: Term, tally: Tally) -> Ints:
        topology = self._snapshot.topology
        by_domain = topology.sum(term.topology_key, self._snapshot.tally(tally))
        return topology.spread(term.topology_key, by_domain)

    def _affine(self) -> Bools:
        terms = self._shape.terms.affinity
        tally = Tally(tuple(term.who for term in terms))
        found = np.ones(self._snapshot.capacity, np.bool_)
        anybody = False
        for term in terms:
            near = self._near(term, tally)
            anybody = anybody or bool(near.any())
            found &= near > 0
        if not anybody and all(self._about_me(term) for term in terms):
            # The first of a group that wants to be together may go anywhere the topology is known.
            found = np.ones(self._snapshot.capacity, np.bool_)
            for term in terms:
                found &= self._snapshot.topology.of(term.topology_key) >= 0
        return found

    def _spread_codes(self, hard: list[Spread], codes: Codes, masks: Masks) -> None:
        topology = self._snapshot.topology
        # From the last constraint to the first, for the same reason as above.
        for spread, eligible, domains, missing in reversed(self._domains(hard, masks)):
            counts = self.matching(spread)
            by_domain = topology.sum(spread.topology_key, counts if eligible is None else counts * eligible)
            least = 0 if len(domains) < max(spread.min_domains, 1) else int(by_domain[domains].min())
            full = by_domain + (int(spread.matches_self) - least) > spread.max_skew
            if full.any():
                codes[np.append(full, False)[topology.of(spread.topology_key)]] = Code.SPREAD
            if missing is not None:
                codes[missing] = Code.SPREAD_LABEL

    def _domains(self, hard: list[Spread], masks: Masks) -> list[Domains]:
        """What of the constraints changes only with the nodes."""
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

    def matching(self, spread: Spread) -> Ints:
        return self._snapshot.tally(Tally((spread.who,), count_terminating=False))

    def soft_spreads(self, masks: Masks) -> list[tuple[Spread, Ints]]:
        selected, untainted = masks()
        return [
            (spread, np.where(self._eligible(spread, selected, untainted), self.matching(spread), 0))
            for spread in self._shape.spreads
            if not spread.hard
        ]

    def liking(self) -> Ints | None:
        """The sum of what this pod and the running ones prefer, by row; None where nobody prefers anything."""
        self._refresh()
        if not self._shape.terms.preferred and not self._wanted_by:
            return None
        topology, snapshot = self._snapshot.topology, self._snapshot
        total = np.zeros(snapshot.capacity, np.int64)
        for weight, term in self._shape.terms.preferred:
            total += weight * self._near(term, Tally((term.who,)))
        for term in self._wanted_by:
            carried = np.zeros(snapshot.capacity, np.int64)
            for row, amount in snapshot.holders.attract[term].items():
                carried[row] = amount
            total += topology.spread(term.topology_key, topology.sum(term.topology_key, carried))
        return total
