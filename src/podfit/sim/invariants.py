"""Checks invariants after every step of a simulation. A violation is a bug of the simulation, and ends it."""

from __future__ import annotations

import numpy as np

from podfit.sim.cluster.pods import LOST, NOWHERE, PENDING, RUNNING, SETTLED, STARTING
from podfit.sim.cluster.state import Cluster

_ROUNDING = 1e-6


class InvariantViolated(RuntimeError):
    """The simulation contradicts itself; the message states the violated invariant."""


def check(cluster: Cluster, before: float) -> None:
    """Checks every invariant. `before` is the time of the previous step."""
    if not cluster.now > before:
        raise InvariantViolated(f"time did not advance: {before:g} s to {cluster.now:g} s")
    _places(cluster)
    _allocations_fit(cluster)
    _board(cluster)
    _usage(cluster)


def _fail_if(wrong: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], cluster: Cluster, words: str) -> None:
    if wrong.any():
        raise InvariantViolated(f"at {cluster.now:g} s: {words} (number {int(np.flatnonzero(wrong)[0])})")


def _places(cluster: Cluster) -> None:
    """Every running pod is on exactly one node, which is up; a pending pod is on none; no pod is lost or duplicated."""
    pods, nodes = cluster.pods, cluster.nodes
    known = (pods.state >= PENDING) & (pods.state <= LOST)
    _fail_if(~known, cluster, "a pod is in an unknown state")
    pending = pods.state == PENDING
    _fail_if(pending != (pods.node == NOWHERE), cluster, "a pending pod has a node, or a running one has none")
    up = np.zeros(len(pods), np.bool_)
    up[~pending] = nodes.alive[pods.node[~pending]]
    works = (pods.state == RUNNING) | (pods.state == STARTING)
    _fail_if(works & ~up, cluster, "a pod runs on a node that is down")
    _fail_if((pods.state == LOST) & up, cluster, "a pod is marked lost on a node that is up")
    if len(cluster.nodes.board.snapshot.pods) != int((~pending).sum()):
        raise InvariantViolated(f"at {cluster.now:g} s: the scheduler's pods differ from the existing ones")


def _allocations_fit(cluster: Cluster) -> None:
    """No node allocates more than its capacity."""
    pods, nodes = cluster.pods, cluster.nodes
    cpu, memory = nodes.held(pods)
    _fail_if(cpu > nodes.cpu, cluster, "more CPU is allocated on a node than it has")
    _fail_if(memory > nodes.memory, cluster, "more memory is allocated on a node than it has")
    count = np.bincount(pods.node[pods.on_node], minlength=len(nodes))
    _fail_if(count > nodes.most_pods, cluster, "a node has more pods than it allows")
    settled = pods.resize == SETTLED
    same = (pods.cpu == pods.want_cpu) & (pods.memory == pods.want_memory)
    _fail_if(settled & ~same, cluster, "the allocation of a settled pod differs from its requests")


def _board(cluster: Cluster) -> None:
    """For each pod the scheduler counts the larger of its desired and its allocated size."""
    pods, nodes = cluster.pods, cluster.nodes
    requested = nodes.board.snapshot.requested[: len(nodes)]
    for column, counted in enumerate(pods.counted()):
        _fail_if(requested[:, column] != nodes.total(pods, counted), cluster, "the scheduler's total is wrong")


def _usage(cluster: Cluster) -> None:
    """No pod gets more than its limit, and all pods of a node together get no more than its capacity."""
    pods, nodes, some = cluster.pods, cluster.nodes, cluster.sampled
    beyond = some & (cluster.got_cpu > cluster.limits_cpu * (1 + _ROUNDING))
    _fail_if(beyond, cluster, "a pod got more CPU than its limit")
    _fail_if(some & (pods.used_memory > cluster.limits_memory), cluster, "a pod uses more memory than its limit")
    total = nodes.sums(cluster.sampled_on[some], cluster.got_cpu[some])
    _fail_if(total > nodes.cpu / 1000.0 * (1 + _ROUNDING), cluster, "pods got more CPU than their node has")
    _fail_if((pods.backlog < 0) | (cluster.got_cpu < 0), cluster, "work is negative")
