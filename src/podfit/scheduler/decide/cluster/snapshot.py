"""The cluster as arrays: a row per node, a column per resource, updated pod by pod and node by node.

A change costs no more than its own row: filters and scores read from the change logs which rows to recompute. The
snapshot contains free resources and pods by node; API objects are in the caches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podfit.api.objects import Object
from podfit.api.pods.host_ports import Port, collide
from podfit.api.pods.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from podfit.api.quantity import Quantity
from podfit.scheduler.decide.cluster.changes import Changes
from podfit.scheduler.decide.cluster.holders import CountedAmounts, Holders, MatchingPods
from podfit.scheduler.decide.cluster.topology import Topology
from podfit.scheduler.decide.pod.needs import MOST, Needs
from podfit.scheduler.decide.pod.pods import PODS, BoundPod, Key

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Taints = tuple[tuple[str, str, str], ...]
CPU_COLUMN, MEMORY_COLUMN = 0, 1
_FIRST_COLUMNS = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
NO_PRIORITY = np.iinfo(np.int64).max


class Snapshot:
    def __init__(self, capacity: int = 64) -> None:
        self.rows: dict[str, int] = {}
        self.names: list[str] = [""] * capacity
        self.nodes: list[Object | None] = [None] * capacity
        self.columns: dict[str, int] = {name: at for at, name in enumerate(_FIRST_COLUMNS)}
        self.allocatable: Ints = np.zeros((capacity, 8), np.int64)
        self.requested: Ints = np.zeros((capacity, 8), np.int64)
        self.nonzero: Ints = np.zeros((capacity, 2), np.int64)
        self.alive: Bools = np.zeros(capacity, np.bool_)
        self.unschedulable: Bools = np.zeros(capacity, np.bool_)
        self.taints: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.taint_sets: list[Taints] = [()]
        self._taint_ids: dict[Taints, int] = {(): 0}
        self.lowest: Ints = np.full(capacity, NO_PRIORITY, np.int64)
        """The lowest priority among the pods of each node."""
        self.pods: dict[Key, BoundPod] = {}
        self.here: list[dict[Key, BoundPod]] = [{} for _ in range(capacity)]
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.topology = Topology(self)
        self.holders = Holders(self)
        self.changed = Changes()
        """Rows whose pods or amounts changed."""
        self.reshaped = Changes()
        """Rows whose labels, taints or existence changed."""
        self.freed = self.filled = 0
        """The number of times that capacity or a node became available, and that capacity was used."""
        self._ports: dict[tuple[str, int], dict[int, list[str]]] = {}
        self._without_node: dict[str, dict[Key, BoundPod]] = {}
        self._free: list[int] = []
        self._used = 0

    @property
    def capacity(self) -> int:
        return len(self.names)

    def __len__(self) -> int:
        return len(self.rows)

    # --- nodes
    def put_node(self, node: Object) -> int:
        """Adds a node or updates it; returns its row."""
        name = node["metadata"]["name"]
        row = self.rows.get(name)
        if row is None:
            row = self._take_row(name)
            self.nodes[row] = None
        before, self.nodes[row] = self.nodes[row], node
        if before is None or _selectable(before) != _selectable(node):
            self._set_selectable(row, node, before)
        if before is None or _allocatable_of(before) != _allocatable_of(node):
            self._set_allocatable(row, node)
        if before is None:
            for pod in self._without_node.pop(name, {}).values():
                self._settle(pod, row)
        return row

    def remove_node(self, name: str) -> None:
        row = self.rows.pop(name, None)
        if row is None:
            return
        for pod in list(self.here[row].values()):
            self._unsettle(pod)
            self._without_node.setdefault(name, {})[pod.key] = pod
        self.topology.forget(row)
        self.alive[row], self.names[row], self.nodes[row] = False, "", None
        self.allocatable[row] = 0
        self._free.append(row)
        self.reshaped.add(row)
        self.changed.add(row)

    def labels(self, row: int) -> Mapping[str, str]:
        node = self.nodes[row]
        return (node["metadata"].get("labels") or {}) if node is not None else {}

    def _take_row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
        else:
            if self._used == self.capacity:
                self._grow()
            row = self._used
            self._used += 1
        self.rows[name], self.names[row], self.alive[row] = row, name, True
        return row

    def _set_selectable(self, row: int, node: Object, before: Object | None) -> None:
        spec = node.get("spec") or {}
        taints = tuple(
            (taint.get("key") or "", taint.get("value") or "", taint.get("effect") or "")
            for taint in spec.get("taints") or ()
        )
        number = self._taint_ids.get(taints)
        if number is None:
            number = self._taint_ids[taints] = len(self.taint_sets)
            self.taint_sets.append(taints)
        self.taints[row] = number
        self.unschedulable[row] = bool(spec.get("unschedulable"))
        self.topology.relabel(row, node["metadata"].get("labels") or {})
        self.reshaped.add(row)

    def _set_allocatable(self, row: int, node: Object) -> None:
        found = np.zeros(self.allocatable.shape[1], np.int64)
        for name, text in _allocatable_of(node).items():
            amount = Quantity.parse(text)
            at = self.column(name)
            if at >= len(found):
                found = np.concatenate([found, np.zeros(self.allocatable.shape[1] - len(found), np.int64)])
            found[at] = max(0, min(amount.milli if name == CPU else amount.value, MOST - 1))
        if not np.array_equal(self.allocatable[row], found):
            self.allocatable[row] = found
            self.changed.add(row)
            self.freed += 1

    # --- pods
    def put_pod(self, pod: BoundPod) -> None:
        """Adds a pod to its node, or replaces its state."""
        if pod.key in self.pods:
            self.remove_pod(pod.key)
        self.pods[pod.key] = pod
        row = self.rows.get(pod.node)
        if row is None:
            self._without_node.setdefault(pod.node, {})[pod.key] = pod
        else:
            self._settle(pod, row)

    def remove_pod(self, key: Key) -> BoundPod | None:
        pod = self.pods.pop(key, None)
        if pod is None:
            return None
        if pod.row >= 0:
            self._unsettle(pod)
        else:
            waiting = self._without_node.get(pod.node, {})
            waiting.pop(key, None)
            if not waiting:
                self._without_node.pop(pod.node, None)
        return pod

    def resize_pod(self, pod: BoundPod, needs: Needs) -> None:
        """Updates only the amounts of a pod that is already here."""
        if pod.row < 0:
            pod.needs = needs
            return
        self._count(pod, -1)
        pod.needs = needs
        self._measure(pod)
        self._count(pod, 1)
        self.changed.add(pod.row)
        self.freed += 1
        self.filled += 1

    def _measure(self, pod: BoundPod) -> None:
        pod.vector = (*((self.column(name), amount) for name, amount in pod.needs.amounts.items()), (3, 1))

    def _count(self, pod: BoundPod, sign: int) -> None:
        requested, nonzero = self.requested[pod.row], self.nonzero[pod.row]
        for at, amount in pod.vector:
            requested[at] += sign * amount
        nonzero[0] += sign * pod.needs.nonzero_cpu
        nonzero[1] += sign * pod.needs.nonzero_memory

    def _settle(self, pod: BoundPod, row: int) -> None:
        self._measure(pod)
        pod.row = row
        self._count(pod, 1)
        self.here[row][pod.key] = pod
        if pod.priority < self.lowest[row]:
            self.lowest[row] = pod.priority
        for address, protocol, port in pod.ports:
            self._ports.setdefault((protocol, port), {}).setdefault(row, []).append(address)
        self.holders.arrived(pod)
        self.changed.add(row)
        self.filled += 1

    def _unsettle(self, pod: BoundPod) -> None:
        row = pod.row
        self._count(pod, -1)
        del self.here[row][pod.key]
        if pod.priority <= self.lowest[row]:
            self.lowest[row] = min((other.priority for other in self.here[row].values()), default=NO_PRIORITY)
        for address, protocol, port in pod.ports:
            self._release(row, address, protocol, port)
        self.holders.left(pod)
        pod.row = -1
        self.changed.add(row)
        self.freed += 1

    def _release(self, row: int, address: str, protocol: str, port: int) -> None:
        by_row = self._ports[protocol, port]
        by_row[row].remove(address)
        if not by_row[row]:
            del by_row[row]
        if not by_row:
            del self._ports[protocol, port]

    def port_taken(self, row: int, ports: Iterable[Port]) -> bool:
        return any(
            collide(address, other)
            for address, protocol, port in ports
            for other in self._ports.get((protocol, port), {}).get(row, ())
        )

    # --- namespaces and rehearsals
    def put_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Sets the labels of a namespace; None if it was deleted."""
        if labels is None:
            self.namespaces.pop(name, None)
        elif self.namespaces.get(name) != labels:
            self.namespaces[name] = labels
            self.holders.renamed()
            self.freed += 1

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """A context for temporary changes, which are undone before other code reads the snapshot and are not
        counted."""
        freed, filled = self.freed, self.filled
        try:
            yield
        finally:
            self.freed, self.filled = freed, filled

    def tally(self, key: MatchingPods) -> CountedAmounts:
        return self.holders.count(key)

    def column(self, name: str) -> int:
        at = self.columns.get(name)
        if at is None:
            at = self.columns[name] = len(self.columns)
            if at >= self.allocatable.shape[1]:
                self.allocatable = _with_more_columns(self.allocatable)
                self.requested = _with_more_columns(self.requested)
        return at

    def _grow(self) -> None:
        more = max(64, self.capacity // 4)
        self.names += [""] * more
        self.nodes += [None] * more
        self.here += [{} for _ in range(more)]
        self.allocatable, self.requested = (
            _with_more_rows(self.allocatable, more),
            _with_more_rows(self.requested, more),
        )
        self.nonzero = _with_more_rows(self.nonzero, more)
        self.alive, self.unschedulable = _longer(self.alive, more), _longer(self.unschedulable, more)
        self.taints = np.concatenate([self.taints, np.zeros(more, np.int32)])
        self.lowest = np.concatenate([self.lowest, np.full(more, NO_PRIORITY, np.int64)])
        self.topology.grow(self.capacity)
        self.holders.grow(self.capacity)


def _selectable(node: Object) -> tuple[object, object, object]:
    spec = node.get("spec") or {}
    return node["metadata"].get("labels"), spec.get("taints"), spec.get("unschedulable")


def _allocatable_of(node: Object) -> Mapping[str, Any]:
    """The node's allocatable resources."""
    status = node.get("status") or {}
    return status.get("allocatable") or status.get("capacity") or {}


def _with_more_columns(table: Ints) -> Ints:
    return np.concatenate([table, np.zeros_like(table)], axis=1)


def _with_more_rows(table: Ints, more: int) -> Ints:
    return np.concatenate([table, np.zeros((more, table.shape[1]), np.int64)], axis=0)


def _longer(mask: Bools, more: int) -> Bools:
    return np.concatenate([mask, np.zeros(more, np.bool_)])
