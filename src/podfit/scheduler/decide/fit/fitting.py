"""One shape of pod against all nodes: which refuse it and how the others score, updated row by row.

The first query of a shape evaluates every node at once; later ones evaluate only rows that changed since, which is what
makes placing many pods of one shape cheap.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from podfit.api.pods.placement import tolerates
from podfit.scheduler.decide.cluster.snapshot import Snapshot
from podfit.scheduler.decide.fit import scores
from podfit.scheduler.decide.fit.classes import Classes
from podfit.scheduler.decide.fit.reasons import HOPELESS, PLUGINS, WORDS, Code, insufficient
from podfit.scheduler.decide.fit.relations import Relations
from podfit.scheduler.decide.fit.rules import Rules
from podfit.scheduler.decide.fit.selection import Selection, named_nodes
from podfit.scheduler.decide.pod.pods import PODS, PodShape
from podfit.scheduler.decide.pod.terms import PREFERRED, Spread

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Codes = NDArray[np.int8]
_UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule"}
_REFUSED = -1
_SHORT = Code.RESOURCES
_FEW = 8
"""Up to this number of rows plain arithmetic is faster than arrays."""


class Fitting:
    def __init__(self, shape: PodShape, snapshot: Snapshot, selection: Selection, rules: Rules) -> None:
        self.shape, self.relations = shape, Relations(shape, snapshot)
        self._snapshot, self._selection, self._rules = snapshot, selection, rules
        self._classes = Classes(snapshot, shape.defaults)
        self.names = named_nodes(shape.spec)
        columns = {snapshot.column(name): amount for name, amount in shape.needs.amounts.items()}
        columns[snapshot.column(PODS)] = 1
        self._columns = np.array(list(columns), np.intp)
        self._needs = np.array(list(columns.values()), np.int64)
        self._pairs = list(columns.items())
        self._ignores_cordon = any(tolerates(toleration, _UNSCHEDULABLE) for toleration in shape.tolerations)
        affinity = (shape.spec.get("affinity") or {}).get("nodeAffinity") or {}
        self._prefers_nodes = bool(affinity.get(PREFERRED))
        self._tainted = np.zeros(0, np.bool_)
        self._selected_at = (-1, 0)
        self._selected_rows: Bools | None = None
        self._soft: Ints | None = None
        self._codes: Codes = np.zeros(0, np.int8)
        self._ranked: Ints = np.zeros(0, np.int64)
        self._preferred: Ints = np.zeros(0, np.int64)
        self._changed = self._reshaped = -1

    # --- updates
    def sync(self) -> None:
        snapshot = self._snapshot
        changed, reshaped = snapshot.changed.position, snapshot.reshaped.position
        if len(self._codes) != snapshot.capacity:
            self._whole()
        elif self._reshaped != reshaped or self._changed != changed:
            rows = snapshot.reshaped.since(self._reshaped)
            more = snapshot.changed.since(self._changed)
            if rows is None or more is None or len(rows) + len(more) > snapshot.capacity:
                self._whole()
            elif rows:
                self._recheck(np.array(list({*rows, *more}), np.intp), statics=True)
            elif len(more) > _FEW:
                self._recheck(np.array(more, np.intp), statics=False)
            else:
                for row in more:
                    self._recheck_row(row)
        self._changed, self._reshaped = changed, reshaped

    def _whole(self) -> None:
        size = self._snapshot.capacity
        self._codes, self._ranked = np.zeros(size, np.int8), np.zeros(size, np.int64)
        self._static: Codes = np.zeros(size, np.int8)
        self._preferred = np.zeros(size if self._prefers_nodes else 0, np.int64)
        self._recheck(np.arange(size), statics=True)

    def _recheck(self, rows: NDArray[np.intp], statics: bool) -> None:
        snapshot = self._snapshot
        if statics:
            self._static[rows] = self._statics(rows)
            if self._prefers_nodes:
                self._preferred[rows] = scores.preferred_affinity(snapshot, self.shape, rows.tolist())
        codes = self._static[rows]
        has, used = snapshot.allocatable.take(rows, axis=0), snapshot.requested.take(rows, axis=0)
        short = (has - used).take(self._columns, axis=1) < self._needs
        if np.count_nonzero(short):
            codes[(codes == 0) & short.any(axis=1)] = Code.RESOURCES
        if self.shape.ports:
            for at, row in enumerate(rows.tolist()):
                if codes[at] in (Code.FITS, Code.RESOURCES) and snapshot.port_taken(row, self.shape.ports):
                    codes[at] = Code.PORTS
        self._codes[rows] = codes
        # A few long rows are faster to process than many short ones.
        has, used, nonzero = has[:, :2].T.copy(), used[:, :2].T.copy(), snapshot.nonzero.take(rows, axis=0).T.copy()
        good = scores.allocation(self.shape, has, used, nonzero, self._rules)
        if np.count_nonzero(codes):
            good[codes != 0] = _REFUSED
        self._ranked[rows] = good

    def _recheck_row(self, row: int) -> None:
        """`_recheck` for one row whose node did not change."""
        snapshot = self._snapshot
        code = int(self._static[row])
        has, used = snapshot.allocatable[row].tolist(), snapshot.requested[row].tolist()
        if not code:
            if self.shape.ports and snapshot.port_taken(row, self.shape.ports):
                code = Code.PORTS
            elif any(has[column] - used[column] < need for column, need in self._pairs):
                code = Code.RESOURCES
        self._codes[row] = code
        if code:
            self._ranked[row] = _REFUSED
        else:
            self._ranked[row] = scores.allocation_of(self.shape, has, used, snapshot.nonzero[row].tolist(), self._rules)

    def _statics(self, rows: NDArray[np.intp]) -> Codes:
        snapshot = self._snapshot
        codes = np.zeros(len(rows), np.int8)
        codes[~self._selection.mask(self.shape)[rows]] = Code.SELECTOR
        codes[self._taint_table()[snapshot.taints[rows]]] = Code.TAINT
        wanted = self.shape.spec.get("nodeName")
        if wanted:
            codes[rows != snapshot.rows.get(wanted, -1)] = Code.NODE_NAME
        if not self._ignores_cordon:
            codes[snapshot.unschedulable[rows]] = Code.UNSCHEDULABLE
        if self.names is not None:
            named = [snapshot.rows[name] for name in self.names if name in snapshot.rows]
            codes[~np.isin(rows, named)] = Code.NOT_NAMED
        if self.shape.refused:
            codes[:] = Code.CLAIM
        codes[~snapshot.alive[rows]] = Code.NO_ROW
        return codes

    def _taint_table(self) -> Bools:
        """Whether the pod is excluded, for each distinct set of taints."""
        sets = self._snapshot.taint_sets
        if len(self._tainted) != len(sets):
            self._tainted = np.array([self.first_taint(number) is not None for number in range(len(sets))], np.bool_)
            self._soft = scores.soft_taints(self._snapshot, self.shape)
        return self._tainted

    def first_taint(self, number: int) -> tuple[str, str, str] | None:
        for key, value, effect in self._snapshot.taint_sets[number]:
            taint = {"key": key, "value": value, "effect": effect}
            if effect in ("NoSchedule", "NoExecute") and not any(tolerates(o, taint) for o in self.shape.tolerations):
                return key, value, effect
        return None

    # --- queries
    def codes(self) -> Codes:
        """The first refusal of every row; a copy."""
        self.sync()
        codes = self._codes.copy()
        if self.relations.active:
            codes = np.where(codes == 0, self.relations.codes(self._masks), codes)
        return codes

    def _masks(self) -> tuple[Bools, Bools]:
        return self._selection.mask(self.shape), ~self._taint_table()[self._snapshot.taints]

    def fits_row(self, row: int) -> bool:
        self.sync()
        if self._codes[row]:
            return False
        out = self.relations.ruled_out(self._masks) if self.relations.active else None
        return out is None or not out[row]

    def ranked(self) -> Ints:
        """The score of every row, negative if the pod does not fit. Not to be written to."""
        self.sync()
        ranked = self._ranked
        if self.relations.active:
            out = self.relations.ruled_out(self._masks)
            if out is not None:
                ranked = ranked.copy()
                np.putmask(ranked, out, _REFUSED)
        elif self._only_default_spread:
            return self._ranked_by_class()
        plain = not self._prefers_nodes and self._soft is None and not self.relations.preferring
        if plain:
            return ranked
        fits = ranked >= 0
        return np.where(fits, ranked + self._preferences(fits), _REFUSED) if fits.any() else ranked

    @property
    def _only_default_spread(self) -> bool:
        """Whether nodes are preferred for nothing but the default constraints."""
        return bool(
            self.shape.defaults
            and not self._prefers_nodes
            and self._soft is None
            and not self.relations.has_preferences
        )

    def _ranked_by_class(self) -> Ints:
        """`ranked` if no relation rules out a row and only default constraints prefer any."""
        if self._classes.sync(self._ranked, [self.relations.matching(spread) for spread in self.shape.defaults]):
            counts = self._default_counts()
            return self._ranked + self._classes.scores([count for _, count in counts], self._rules.spread_weight)
        fits = self._ranked >= 0
        return np.where(fits, self._ranked + self._rules.spread_weight * self._default_spread(fits), _REFUSED)

    def _preferences(self, fits: Bools) -> Ints:
        snapshot, rules = self._snapshot, self._rules
        if self._only_default_spread:
            return rules.spread_weight * self._default_spread(fits)
        total = np.zeros(len(fits), np.int64)
        if self._prefers_nodes:
            total += rules.node_affinity_weight * scores.scaled(self._preferred, fits)
        if self._soft is not None:
            total += rules.taint_weight * scores.scaled(self._soft[snapshot.taints], fits, reverse=True)
        liking = self.relations.preference_scores()
        if liking is not None:
            total += rules.pod_affinity_weight * scores.stretched(liking, fits)
        if any(not spread.hard for spread in self.shape.spreads):
            counted = self.relations.soft_spreads(self._masks)
            total += rules.spread_weight * scores.spreading(snapshot, counted, fits)
        elif self.shape.defaults:
            total += rules.spread_weight * self._default_spread(fits)
        return total

    def _default_spread(self, fits: Bools) -> Ints:
        return scores.spreading_by_default(self._snapshot, self._default_counts(), fits)

    def _default_counts(self) -> list[tuple[Spread, Ints]]:
        return self.relations.default_spreads(self._selected())

    def _selected(self) -> Bools | None:
        """The nodes that the selector allows; None if it allows all. Cached until a node changes."""
        position = (self._snapshot.reshaped.position, self._snapshot.capacity)
        if self._selected_at != position:
            mask = self._selection.mask(self.shape)
            everywhere = bool((mask | ~self._snapshot.alive).all())
            self._selected_at, self._selected_rows = position, None if everywhere else mask
        return self._selected_rows

    # --- explanations
    def reasons(self, codes: Codes) -> Counter[str]:
        """The number of nodes for each reason of refusal, in Kubernetes' words."""
        found: Counter[str] = Counter()
        values, counts = np.unique(codes, return_counts=True)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            if value in WORDS:
                found[WORDS[Code(value)]] = count
        rows = np.flatnonzero(codes == Code.RESOURCES)
        for name, lacking in self.lacking(rows).items():
            if (short := int((lacking > 0).sum())) > 0:
                found[insufficient(name)] = short
        return found

    @staticmethod
    def plugins(codes: Codes) -> frozenset[str]:
        return frozenset(PLUGINS[Code(code)] for code in np.unique(codes).tolist() if code in WORDS or code == _SHORT)

    def reasons_of(self, row: int) -> Counter[str]:
        codes = self.codes()
        only: Codes = np.full_like(codes, Code.NO_ROW)
        only[row] = codes[row]
        return self.reasons(only)

    def lacking(self, rows: NDArray[np.intp]) -> dict[str, Ints]:
        """The amount missing on each of the rows, by resource (negative: free)."""
        snapshot = self._snapshot
        names = {column: name for name, column in snapshot.columns.items()}
        free = snapshot.allocatable[rows[:, None], self._columns] - snapshot.requested[rows[:, None], self._columns]
        short = self._needs - free
        return {names[int(column)]: short[:, at] for at, column in enumerate(self._columns)}

    def unresolvable(self, codes: Codes) -> Bools:
        """Rows on which removing pods would not help."""
        never = np.isin(codes, (*HOPELESS, Code.NO_ROW))
        too_small = (self._snapshot.allocatable[:, self._columns] < self._needs).any(axis=1)
        hopeless: Bools = never | ((codes == Code.RESOURCES) & too_small)
        return hopeless
