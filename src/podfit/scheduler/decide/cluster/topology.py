"""Domains: for each topology key in use, the domain of each node, as a small number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from podfit.scheduler.decide.cluster.snapshot import Snapshot

NOWHERE = -1
Ids = NDArray[np.int64]


class Topology:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._ids: dict[str, Ids] = {}
        self._values: dict[str, dict[str, int]] = {}
        self._domains: dict[str, tuple[int, tuple[int, bool]]] = {}
        self.version = 0
        """A counter that changes when a node may have changed its domain: sums by domain must be computed again."""

    def of(self, key: str) -> Ids:
        """The domain of each row; NOWHERE for nodes without the label."""
        ids = self._ids.get(key)
        if ids is None:
            ids = self._ids[key] = np.full(self._snapshot.capacity, NOWHERE, np.int64)
            self._values[key] = {}
            for row in self._snapshot.rows.values():
                self._place(key, ids, row, self._snapshot.labels(row))
        return ids

    def size(self, key: str) -> int:
        """One more than the largest domain number."""
        self.of(key)
        return len(self._values[key])

    def domains(self, key: str) -> int:
        """The number of domains of all nodes; nodes without the label count as one."""
        return self._all_nodes(key)[0]

    def everywhere(self, key: str) -> bool:
        """Whether every node has the label."""
        return self._all_nodes(key)[1]

    def _all_nodes(self, key: str) -> tuple[int, bool]:
        version, found = self._domains.get(key, (-1, (0, True)))
        if version != self.version:
            ids = np.unique(self.of(key)[self._snapshot.alive])
            found = (len(ids), NOWHERE not in ids)
            self._domains[key] = (self.version, found)
        return found

    def sum(self, key: str, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts by row, summed by domain."""
        ids = self.of(key)
        # Shifted by one, so that nodes in no domain have an entry of their own, which is dropped.
        found = np.bincount(ids + 1, weights=counts, minlength=self.size(key) + 1)
        return found[1:].astype(np.int64)

    def spread(self, key: str, by_domain: NDArray[np.int64]) -> NDArray[np.int64]:
        """Counts by domain mapped back to rows; 0 for nodes in none."""
        spread: NDArray[np.int64] = np.append(by_domain, 0)[self.of(key)]
        return spread

    def relabel(self, row: int, labels: Mapping[str, str]) -> None:
        self.version += 1
        for key, ids in self._ids.items():
            self._place(key, ids, row, labels)

    def forget(self, row: int) -> None:
        self.version += 1
        for ids in self._ids.values():
            ids[row] = NOWHERE

    def grow(self, capacity: int) -> None:
        self.version += 1
        for key, ids in self._ids.items():
            self._ids[key] = np.concatenate([ids, np.full(capacity - len(ids), NOWHERE, np.int64)])

    def _place(self, key: str, ids: Ids, row: int, labels: Mapping[str, str]) -> None:
        value = labels.get(key)
        if value is None:
            ids[row] = NOWHERE
            return
        known = self._values[key]
        ids[row] = known.setdefault(value, len(known))
