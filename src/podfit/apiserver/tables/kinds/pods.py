"""Rows of pods: readiness, state, restarts."""

from __future__ import annotations

from typing import Any, TypedDict

import msgspec

from podfit.api.objects import Object
from podfit.apiserver.tables.columns import (
    AGE,
    NAME,
    NONE,
    Column,
    Elapsed,
    Layout,
    age,
    name,
    spec,
    status,
    wide,
)
from podfit.kit.clock import parse_rfc3339

_COLUMNS = (
    NAME,
    Column("Ready", description="The aggregate readiness state of this pod for accepting traffic."),
    Column("Status", description="The aggregate status of the containers in this pod."),
    Column(
        "Restarts",
        description="The number of times the containers in this pod have been restarted and when the last container in "
        "this pod has restarted.",
    ),
    AGE,
    wide("IP", "podIP address allocated to the pod. Routable at least within the cluster. Empty if not yet allocated."),
    wide(
        "Node",
        "NodeName indicates in which node this pod is scheduled. If empty, this pod is a candidate for scheduling by "
        "the scheduler defined in schedulerName. Once this field is set, the kubelet for this node becomes responsible "
        "for the lifecycle of this pod. This field should not be used to express a desire for the pod to be scheduled "
        "on a specific node. https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodename",
    ),
    wide(
        "Nominated Node",
        "nominatedNodeName is set only when this pod preempts other pods on the node, but it cannot be scheduled right "
        "away as preemption victims receive their graceful termination periods. This field does not guarantee that the "
        "pod will be scheduled on this node. Scheduler may decide to place the pod elsewhere if other nodes become "
        "available sooner. Scheduler may also decide to give the resources on this node to a higher priority pod that "
        "is created after preemption. As a result, this field may be different than PodSpec.nodeName when the pod is "
        "scheduled.",
    ),
    wide(
        "Readiness Gates",
        "If specified, all readiness gates will be evaluated for pod readiness. A pod is ready when all its containers "
        'are ready AND all conditions specified in the readiness gates have status equal to "True" More info: '
        "https://git.k8s.io/enhancements/keps/sig-network/580-pod-readiness-gates",
    ),
)
_DONE = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


class _Named(TypedDict, total=False):
    name: Any
    restartPolicy: Any


class _Metadata(TypedDict, total=False):
    name: Any
    creationTimestamp: Any
    deletionTimestamp: Any


class _Spec(TypedDict, total=False):
    containers: list[_Named] | None
    initContainers: list[_Named] | None
    nodeName: Any
    readinessGates: Any


class _Status(TypedDict, total=False):
    phase: Any
    reason: Any
    conditions: Any
    podIP: Any
    podIPs: Any
    nominatedNodeName: Any
    initContainerStatuses: Any
    containerStatuses: Any


class _Shown(TypedDict, total=False):
    """The part of a pod that a row needs. Decoding only this part takes a third of the time."""

    metadata: _Metadata
    spec: _Spec | None
    status: _Status | None


class ContainerSummary:
    """A summary of the statuses of a pod's containers."""

    def __init__(self, pod: Object) -> None:
        self.pod, self.status = pod, status(pod)
        self.word = self.status.get("reason") or self.status.get("phase", "")
        self.ready = self.restarts = 0
        self.last_restart = 0.0
        inits = spec(pod).get("initContainers") or []
        self.sidecars = {row["name"] for row in inits if row.get("restartPolicy") == "Always"}
        self.total = len(spec(pod).get("containers") or []) + len(self.sidecars)
        if (
            self.status.get("phase") == "Pending"
            and _condition(self.status, "PodScheduled", "reason") == "SchedulingGated"
        ):
            self.word = "SchedulingGated"

    def count(self) -> None:
        initialising = self._count_inits()
        if not initialising or _condition(self.status, "Initialized", "status") == "True":
            self._count_containers()
        if self.pod["metadata"].get("deletionTimestamp"):
            if self.status.get("reason") == "NodeLost":
                self.word = "Unknown"
            elif self.status.get("phase") not in _DONE:
                self.word = "Terminating"

    def _count_inits(self) -> bool:
        total = len(spec(self.pod).get("initContainers") or [])
        kept_restarts, kept_last = 0, 0.0
        initialising = False
        for at, row in enumerate(self.status.get("initContainerStatuses") or []):
            self._restarted(row)
            sidecar = row.get("name") in self.sidecars
            if sidecar:
                kept_restarts += row.get("restartCount", 0)
                kept_last = max(kept_last, _finished(row))
            word = self._init_word(row, sidecar, at, total)
            if word is None:
                self.ready += bool(sidecar and row.get("started") and row.get("ready"))
                continue
            self.word, initialising = word, True
            break
        if not initialising or _condition(self.status, "Initialized", "status") == "True":
            self.restarts, self.last_restart = kept_restarts, kept_last
        return initialising

    @staticmethod
    def _init_word(row: Object, sidecar: bool, at: int, total: int) -> str | None:
        state = row.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        if ended is not None and ended.get("exitCode", 0) == 0:
            return None
        if sidecar and row.get("started"):
            return None
        if ended is not None:
            return "Init:" + _ended(ended)
        if waiting is not None and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{at}/{total}"

    def _count_containers(self) -> None:
        running = False
        for row in reversed(self.status.get("containerStatuses") or []):
            self._restarted(row)
            state = row.get("state") or {}
            waiting, ended = state.get("waiting"), state.get("terminated")
            if waiting is not None and waiting.get("reason"):
                self.word = waiting["reason"]
            elif ended is not None:
                self.word = _ended(ended)
            elif row.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.word == "Completed" and running:
            self.word = "Running" if _condition(self.status, "Ready", "status") == "True" else "NotReady"

    def _restarted(self, row: Object) -> None:
        self.restarts += row.get("restartCount", 0)
        self.last_restart = max(self.last_restart, _finished(row))


def _ended(state: Object) -> str:
    if state.get("reason"):
        return str(state["reason"])
    return f"Signal:{state['signal']}" if state.get("signal") else f"ExitCode:{state.get('exitCode', 0)}"


def _finished(row: Object) -> float:
    moment = ((row.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
    return parse_rfc3339(moment) if moment else 0.0


def _condition(pod_status: Object, kind: str, field: str) -> str:
    rows = pod_status.get("conditions") or []
    return next((row.get(field) or "" for row in rows if row.get("type") == kind), "")


def _gates(pod: Object) -> str:
    gates = spec(pod).get("readinessGates") or []
    if not gates:
        return NONE
    met = sum(_condition(status(pod), gate.get("conditionType", ""), "status") == "True" for gate in gates)
    return f"{met}/{len(gates)}"


def summary(pod: Object) -> ContainerSummary:
    tally = ContainerSummary(pod)
    tally.count()
    return tally


def _cells(pod: Object) -> list[Any]:
    tally = summary(pod)
    restarts: str | Elapsed = str(tally.restarts)
    if tally.restarts and tally.last_restart:
        restarts = Elapsed(tally.last_restart, f"{restarts} (", " ago)")
    addresses = tally.status.get("podIPs") or []
    address = (addresses[0].get("ip") if addresses else tally.status.get("podIP")) or NONE
    return [
        name(pod),
        f"{tally.ready}/{tally.total}",
        tally.word,
        restarts,
        age(pod),
        address,
        spec(pod).get("nodeName") or NONE,
        tally.status.get("nominatedNodeName") or NONE,
        _gates(pod),
    ]


def _conditions(pod: Object) -> list[Object] | None:
    phase = status(pod).get("phase", "")
    if phase not in _DONE:
        return None
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _DONE[phase]}]


PODS = Layout(_COLUMNS, _cells, _conditions, msgspec.json.Decoder(_Shown).decode)
