"""The snapshot with everything derived from it: recent shapes, and capacity reserved for pods that preempted.

`place` decides which node, if any, a pod is assigned to now.
"""

from __future__ import annotations

import random
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podfit.api.objects import Object
from podfit.scheduler.decide.cluster.snapshot import Snapshot
from podfit.scheduler.decide.fit.fitting import Codes, Fitting
from podfit.scheduler.decide.fit.reasons import CONFLICT, NO_NODES, available
from podfit.scheduler.decide.fit.rules import Rules
from podfit.scheduler.decide.fit.selection import Selection
from podfit.scheduler.decide.pod.claims import Claims
from podfit.scheduler.decide.pod.owners import Owners
from podfit.scheduler.decide.pod.pods import BoundPod, Key, PodShape, pod_key, priority_of, resident, shape_of

Ints = NDArray[np.int64]
Epoch = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Placed:
    row: int
    node: str


@dataclass(frozen=True, slots=True, eq=False)
class Refused:
    """No node accepts the pod now; `codes` gives the reason, row by row (None if there is no node)."""

    message: str
    fitting: Fitting
    codes: Codes | None


class Board:
    def __init__(self, snapshot: Snapshot | None = None, rules: Rules | None = None, seed: int | None = None) -> None:
        self.snapshot, self.rules = snapshot or Snapshot(), rules or Rules()
        self.selection = Selection(self.snapshot)
        self.owners, self.claims = Owners(), Claims()
        self.nominated: dict[Key, BoundPod] = {}
        """Pods that wait for their preempted victims to terminate, with their nominated nodes."""
        self._fittings: OrderedDict[bytes, Fitting] = OrderedDict()
        self._refusals: dict[bytes, tuple[Epoch, Refused]] = {}
        self._random = random.Random(seed)
        self._promises = 0

    @property
    def epoch(self) -> Epoch:
        """Counters that change whenever a result of the board may change."""
        snapshot = self.snapshot
        return snapshot.freed, snapshot.filled, snapshot.reshaped.position, self._promises

    def shape(self, pod: Object) -> PodShape:
        family = None
        if self.rules.default_spread and not pod["spec"].get("topologySpreadConstraints"):
            family = self.owners.family(pod)
        refused = self.claims.refusal(pod)
        return shape_of(pod, self.snapshot.holders.selected_keys, self._known, family, refused)

    def _known(self, key: bytes) -> PodShape | None:
        found = self._fittings.get(key)
        return found.shape if found is not None else None

    def fitting(self, shape: PodShape) -> Fitting:
        found = self._fittings.get(shape.key)
        if found is None:
            found = self._fittings[shape.key] = Fitting(shape, self.snapshot, self.selection, self.rules)
            if len(self._fittings) > self.rules.max_shapes:
                self._fittings.popitem(last=False)
        else:
            self._fittings.move_to_end(shape.key)
        return found

    def place(self, pod: Object, shape: PodShape | None = None) -> Placed | Refused:
        fitting = self.fitting(shape or self.shape(pod))
        ranked = self._unpromised(fitting, fitting.ranked(), pod)
        row = self._choose(ranked, pod)
        return Placed(row, self.snapshot.names[row]) if row >= 0 else self._refuse(fitting, ranked)

    def fits_somewhere(self, pod: Object, shape: PodShape) -> bool:
        fitting = self.fitting(shape)
        ranked = self._unpromised(fitting, fitting.ranked(), pod)
        return bool(ranked.max(initial=-1) >= 0)

    def _choose(self, ranked: Ints, pod: Object) -> int:
        mine = (pod.get("status") or {}).get("nominatedNodeName")
        if mine:
            row = self.snapshot.rows.get(mine, -1)
            if row >= 0 and ranked[row] >= 0:
                return row
        first = int(ranked.argmax()) if len(ranked) else -1
        top = ranked[first] if first >= 0 else -1
        if top < 0:
            return -1
        if self.rules.deterministic:
            return first
        best = (ranked == top).nonzero()[0]
        return int(best[self._random.randrange(len(best))]) if len(best) > 1 else first

    # --- reserved capacity
    def nominate(self, pod: Object, node: str) -> None:
        key = pod_key(pod)
        before = self.nominated.get(key)
        if before is None or before.node != node:
            self._promises += 1
        self.nominated[key] = resident(pod, node)

    def unnominate(self, key: Key) -> bool:
        known = self.nominated.pop(key, None) is not None
        self._promises += known
        return known

    def nominated_on(self, pod: Object) -> dict[int, list[BoundPod]]:
        """Other waiting pods of the same or a higher priority, by the row of the node they are nominated for."""
        if not self.nominated:
            return {}
        key, priority, found = pod_key(pod), priority_of(pod), {}  # type: tuple[str, str], int, dict[int, list[BoundPod]]
        for other in self.nominated.values():
            row = self.snapshot.rows.get(other.node, -1)
            if other.key != key and other.priority >= priority and row >= 0 and other.key not in self.snapshot.pods:
                found.setdefault(row, []).append(other)
        return found

    def _unpromised(self, fitting: Fitting, ranked: Ints, pod: Object) -> Ints:
        promised = self.nominated_on(pod)
        if not promised:
            return ranked
        ranked = ranked.copy()
        for row, others in promised.items():
            if ranked[row] >= 0 and not self.fits_beside(fitting, row, others):
                ranked[row] = -1
        return ranked

    def fits_beside(self, fitting: Fitting, row: int, others: list[BoundPod]) -> bool:
        """Whether the row still fits the shape with `others` on it."""
        if not others:
            return fitting.fits_row(row)
        with self.beside(others):
            return fitting.fits_row(row)

    @contextmanager
    def beside(self, others: list[BoundPod]) -> Iterator[None]:
        """A context in which `others` count as bound."""
        with self.snapshot.rehearsal():
            for other in others:
                self.snapshot.put_pod(other)
            try:
                yield
            finally:
                for other in others:
                    self.snapshot.remove_pod(other.key)

    # --- refusals
    def _refuse(self, fitting: Fitting, ranked: Ints) -> Refused:
        """The refusal for a shape, cached: many pods of one shape are refused for the same reason."""
        if self.nominated:
            return self._refusal(fitting, ranked)
        epoch, refused = self._refusals.get(fitting.shape.key, (None, None))
        if refused is None or epoch != self.epoch:
            refused = self._refusal(fitting, ranked)
            if len(self._refusals) > self.rules.max_shapes:
                self._refusals.clear()
            self._refusals[fitting.shape.key] = (self.epoch, refused)
        return refused

    def _refusal(self, fitting: Fitting, ranked: Ints) -> Refused:
        nodes = len(self.snapshot)
        if not nodes:
            return Refused(NO_NODES, fitting, None)
        codes = fitting.codes()
        if fitting.shape.refused:
            return Refused(available(nodes, {}, fitting.shape.refused), fitting, codes)
        if fitting.names is not None and not fitting.names:
            return Refused(available(nodes, {}, CONFLICT), fitting, codes)
        reasons = fitting.reasons(codes)
        held = np.flatnonzero((codes == 0) & (ranked < 0))
        if len(held):
            # These nodes have room that is reserved for nominated pods, so the message counts those as bound.
            reasons += self._reasons_beside(fitting, held)
        return Refused(available(nodes, reasons), fitting, codes)

    def _reasons_beside(self, fitting: Fitting, rows: NDArray[np.intp]) -> Counter[str]:
        found: Counter[str] = Counter()
        by_row: dict[int, list[BoundPod]] = {}
        for other in self.nominated.values():
            by_row.setdefault(self.snapshot.rows.get(other.node, -1), []).append(other)
        for row in rows.tolist():
            others = [pod for pod in by_row.get(row, []) if pod.key not in self.snapshot.pods]
            with self.beside(others):
                found += fitting.reasons_of(row)
        return found
