"""The agents' part of a step: decides Granted, Deferred or Infeasible for every pending resize.

Most nodes have room for all pending resizes; then every verdict is Granted, in any order (`roomy`, which a property
test compares with the agent's decisions). On the other nodes `agent/decide` decides one resize after the other.
"""

from __future__ import annotations

import numpy as np

from podfit.agent.decide.resize import allocate
from podfit.api.pods.room import Room
from podfit.api.quantity import Quantity
from podfit.api.resize.states import Allocated, Desired
from podfit.api.resize.verdicts import Deferred, Granted, Infeasible, Verdict
from podfit.sim.cluster.objects import CONTAINER, NODE_POLICY, Template
from podfit.sim.cluster.pods import (
    DEFERRED,
    IN_PROGRESS,
    INFEASIBLE,
    LOST,
    PENDING,
    SETTLED,
    UNJUDGED,
    Flags,
    Ints,
    Numbers,
)
from podfit.sim.cluster.state import Cluster

_STATES = {Deferred: DEFERRED, Infeasible: INFEASIBLE}
Amounts = tuple[int, int]
"""CPU in millicores and memory in bytes."""


def judge(cluster: Cluster) -> None:
    pods = cluster.pods
    open_ = (pods.resize != SETTLED) & (pods.resize != INFEASIBLE) & (pods.state != PENDING) & (pods.state != LOST)
    waiting = np.flatnonzero(open_)
    if not len(waiting):
        return
    fresh = waiting[pods.resize[waiting] == UNJUDGED]
    held_back = pods.used_memory[waiting] > pods.want_memory[waiting] * pods.memory_ratio[waiting]
    held_back &= pods.want_memory[waiting] < pods.memory[waiting]
    pods.resize[waiting[held_back]] = IN_PROGRESS
    waiting = waiting[~held_back]
    waiting = waiting[(pods.resize[waiting] != DEFERRED) | (pods.judged_at[waiting] != _versions(cluster, waiting))]
    before = pods.counted()
    version = _versions(cluster, waiting)
    _shrink(cluster, waiting)
    growing = waiting[pods.resize[waiting] != SETTLED]
    _grow(cluster, growing)
    pods.judged_at[waiting] = version
    touched = np.union1d(waiting, fresh)
    after = pods.counted()
    changed = (before[0][touched] != after[0][touched]) | (before[1][touched] != after[1][touched])
    changed |= np.isin(touched, fresh)
    cluster.recount(touched[changed])


def _versions(cluster: Cluster, waiting: Numbers) -> Ints:
    return cluster.nodes.version[cluster.pods.node[waiting]]


def _shrink(cluster: Cluster, waiting: Numbers) -> None:
    """Grants resizes that increase no request. They come before the others."""
    pods = cluster.pods
    grows = (pods.want_cpu[waiting] > pods.cpu[waiting]) | (pods.want_memory[waiting] > pods.memory[waiting])
    _grant(cluster, waiting[~grows])


def _grow(cluster: Cluster, growing: Numbers) -> None:
    pods, nodes = cluster.pods, cluster.nodes
    if not len(growing):
        return
    held_cpu, held_memory = nodes.held(pods)
    at = pods.node[growing]
    fits = roomy(at, pods.want_cpu[growing] - pods.cpu[growing], nodes.cpu - held_cpu)
    fits &= roomy(at, pods.want_memory[growing] - pods.memory[growing], nodes.memory - held_memory)
    _grant(cluster, growing[fits])
    rest = growing[~fits]
    for node in np.unique(pods.node[rest]).tolist():
        _one_by_one(cluster, node, rest[pods.node[rest] == node])


def roomy(node: Ints, growth: Ints, free: Ints) -> Flags:
    """Whether each resize is on a node with room for the growth of all its pending resizes together."""
    needed = np.bincount(node, np.maximum(growth, 0), len(free))
    return np.asarray((needed <= free)[node])


def _one_by_one(cluster: Cluster, node: int, waiting: Numbers) -> None:
    pods, nodes = cluster.pods, cluster.nodes
    here = np.flatnonzero(pods.node == node)
    used = [int(pods.cpu[here].sum()), int(pods.memory[here].sum())]
    total = (int(nodes.cpu[node]), int(nodes.memory[node]))
    for pod in _queue(cluster, waiting):
        own = (int(pods.cpu[pod]), int(pods.memory[pod]))
        wanted = (int(pods.want_cpu[pod]), int(pods.want_memory[pod]))
        others = (used[0] - own[0], used[1] - own[1])
        template = cluster.templates[int(pods.workload[pod])]
        verdict = verdict_on(template, own, wanted, total, others)
        if isinstance(verdict, Granted):
            _grant(cluster, np.array([pod], np.intp))
            used = [others[0] + wanted[0], others[1] + wanted[1]]
        else:
            _refuse(cluster, pod, verdict)


def _queue(cluster: Cluster, waiting: Numbers) -> list[int]:
    """Sorts resizes in the agent's order: by priority, Guaranteed pods before others, then by waiting time."""
    pods = cluster.pods

    def key(pod: int) -> tuple[object, ...]:
        template = cluster.templates[int(pods.workload[pod])]
        since = float(pods.resize_since[pod]) if pods.resize[pod] == DEFERRED else None
        return allocate.queue_key(
            {"metadata": {}, "spec": {"priority": int(pods.priority[pod])}}, True, template.qos, since
        )

    return sorted(waiting.tolist(), key=key)


def verdict_on(template: Template, own: Amounts, wanted: Amounts, total: Amounts, others: Amounts) -> Verdict:
    """The agent's verdict on a pod that has `own` and requests `wanted`, when other pods have `others` of the node's
    `total`."""
    pod = template.pod(0, *wanted)
    desired = Desired({CONTAINER: template.resources(*wanted)})
    allocated = Allocated({CONTAINER: template.resources(*own)})
    return allocate.decide(pod, desired, allocated, Room(_amounts(total), _amounts(others)), template.qos, NODE_POLICY)


def _amounts(amounts: Amounts) -> dict[str, Quantity]:
    return {"cpu": Quantity.of_milli(amounts[0]), "memory": Quantity.of_units(amounts[1])}


def _grant(cluster: Cluster, granted: Numbers) -> None:
    pods = cluster.pods
    pods.cpu[granted], pods.memory[granted] = pods.want_cpu[granted], pods.want_memory[granted]
    pods.resize[granted] = SETTLED
    cluster.tally.resized(granted)


def _refuse(cluster: Cluster, pod: int, verdict: Verdict) -> None:
    state = _STATES[type(verdict)]  # type: ignore[index]
    if state == INFEASIBLE and cluster.pods.resize[pod] != INFEASIBLE:
        cluster.tally.infeasible += 1
    cluster.pods.resize[pod] = state
