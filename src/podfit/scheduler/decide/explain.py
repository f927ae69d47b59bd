"""Explains why a pod fits on some nodes and not on others: for each node what is missing, and how much.

Takes plain lists of nodes and pods as JSON, so that the command line can explain the decisions of any scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from podfit.api.objects import Object
from podfit.api.pods.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from podfit.api.quantity import BINARY_SI, Quantity
from podfit.scheduler.decide.board import Board
from podfit.scheduler.decide.cluster.snapshot import Snapshot
from podfit.scheduler.decide.fit.fitting import Fitting
from podfit.scheduler.decide.fit.reasons import PLUGINS, WORDS, Code, insufficient
from podfit.scheduler.decide.pod.pods import finished, pod_key, resident


@dataclass(frozen=True, slots=True)
class PrintedShortage:
    """Amounts as Kubernetes prints quantities."""

    resource: str
    requested: str
    free: str
    allocatable: str
    missing: str


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    node: str
    fits: bool
    plugin: str = ""
    """The plugin that refused, by kube-scheduler's name for it."""
    reasons: tuple[str, ...] = ()
    detail: str = ""
    shortages: tuple[PrintedShortage, ...] = ()
    preemption_helps: bool = False
    """Whether removing pods from the node could help at all."""


def snapshot_of(nodes: Iterable[Object], pods: Iterable[Object], namespaces: Iterable[Object] = ()) -> Snapshot:
    snapshot = Snapshot()
    for namespace in namespaces:
        meta = namespace["metadata"]
        snapshot.put_namespace(meta["name"], meta.get("labels") or {})
    for node in nodes:
        snapshot.put_node(node)
    for pod in pods:
        if (pod.get("spec") or {}).get("nodeName") and not finished(pod):
            snapshot.put_pod(resident(pod))
    return snapshot


def explain(pod: Object, snapshot: Snapshot | Board) -> list[NodeVerdict]:
    """One verdict for each node, by name. A pod that has a node is judged as if it had none."""
    board = snapshot if isinstance(snapshot, Board) else Board(snapshot)
    place = board.snapshot
    spec = {key: value for key, value in (pod.get("spec") or {}).items() if key != "nodeName"}
    unbound = {**pod, "spec": spec}
    mine = place.remove_pod(pod_key(pod))
    try:
        fitting = board.fitting(board.shape(unbound))
        codes = fitting.codes()
        hopeless = fitting.unresolvable(codes)
        rows = sorted(place.rows.items())
        return [_verdict(fitting, place, name, row, Code(int(codes[row])), not hopeless[row]) for name, row in rows]
    finally:
        if mine is not None:
            place.put_pod(mine)


def explain_objects(
    pod: Object, nodes: Iterable[Object], pods: Iterable[Object], namespaces: Iterable[Object] = ()
) -> list[NodeVerdict]:
    return explain(pod, snapshot_of(nodes, pods, namespaces))


def _verdict(fitting: Fitting, snapshot: Snapshot, name: str, row: int, code: Code, helps: bool) -> NodeVerdict:
    if code == Code.FITS:
        return NodeVerdict(name, True)
    if code == Code.RESOURCES:
        shortages = _shortages(fitting, snapshot, row)
        reasons = tuple(insufficient(shortage.resource) for shortage in shortages)
        detail = "; ".join(
            f"{shortage.resource}: requested {shortage.requested}, free {shortage.free} of {shortage.allocatable}, "
            f"missing {shortage.missing}"
            for shortage in shortages
        )
        return NodeVerdict(name, False, PLUGINS[code], reasons, detail, shortages, helps)
    detail = _detail(fitting, snapshot, row, code)
    return NodeVerdict(name, False, PLUGINS[code], (WORDS[code],), detail, (), helps)


def _shortages(fitting: Fitting, snapshot: Snapshot, row: int) -> tuple[PrintedShortage, ...]:
    found = []
    for resource, lacking in fitting.lacking(np.array([row], np.intp)).items():
        missing = int(lacking[0])
        if missing <= 0:
            continue
        has = int(snapshot.allocatable[row, snapshot.columns[resource]])
        free = has - int(snapshot.requested[row, snapshot.columns[resource]])
        amounts = (missing + free, free, has, missing)
        found.append(PrintedShortage(resource, *(_print(resource, amount) for amount in amounts)))
    return tuple(found)


def _print(resource: str, amount: int) -> str:
    if resource == CPU:
        return str(Quantity.of_milli(amount))
    binary = resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith("hugepages-")
    return str(Quantity.of_units(amount, BINARY_SI)) if binary else str(amount)


def _detail(fitting: Fitting, snapshot: Snapshot, row: int, code: Code) -> str:
    spec = fitting.shape.spec
    if code == Code.TAINT:
        taint = fitting.first_taint(int(snapshot.taints[row]))
        return f"taint {taint[0]}={taint[1]}:{taint[2]}" if taint else ""
    if code == Code.PORTS:
        taken = [port for port in fitting.shape.ports if snapshot.port_taken(row, (port,))]
        return ", ".join(f"{protocol} {number}" for _, protocol, number in taken)
    if code == Code.SELECTOR:
        labels = snapshot.labels(row)
        wrong = [f"{key}={want}" for key, want in (spec.get("nodeSelector") or {}).items() if labels.get(key) != want]
        return f"label {', '.join(wrong)}" if wrong else "node affinity"
    return ""
