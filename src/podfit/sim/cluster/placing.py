"""The scheduler's part of a step: pending pods are placed on nodes by priority, and containers start."""

from __future__ import annotations

import numpy as np

from podfit.scheduler.decide.board import Placed, Refused
from podfit.scheduler.decide.pod.pods import resident
from podfit.scheduler.decide.preempt import PreemptionCandidate, preempt
from podfit.sim.cluster.pods import PENDING, RUNNING, STARTING
from podfit.sim.cluster.state import Cluster
from podfit.sim.report.tally import PREEMPTED


def schedule(cluster: Cluster) -> None:
    """Runs the scheduler for every pending pod. After one pod was rejected, all pods of its workload with the same size
    are rejected, too: within a pass free capacity only shrinks, unless pods are preempted."""
    pods = cluster.pods
    waiting = np.flatnonzero(pods.state == PENDING)
    order = np.lexsort((waiting, pods.since[waiting], -pods.priority[waiting]))
    refused: set[tuple[int, int, int]] = set()
    for pod in waiting[order].tolist():
        shape = (int(pods.workload[pod]), int(pods.want_cpu[pod]), int(pods.want_memory[pod]))
        if shape in refused:
            continue
        before = cluster.tally.preemptions
        if not _place(cluster, pod):
            refused.add(shape)
        elif cluster.tally.preemptions > before:
            refused.clear()


def _place(cluster: Cluster, pod: int) -> bool:
    board = cluster.nodes.board
    wanted = cluster.pod_object(pod)
    answer = board.place(wanted)
    if isinstance(answer, Refused) and (board.snapshot.lowest < cluster.pods.priority[pod]).any():
        found = preempt(board, wanted, answer, [], cluster.random)
        if isinstance(found, PreemptionCandidate):
            victims = np.array([cluster.number_of(victim.key) for victim in found.victims], np.intp)
            cluster.evict(victims, PREEMPTED)
            cluster.tally.preemptions += 1
            answer = board.place(wanted)
    if not isinstance(answer, Placed):
        return False
    board.snapshot.put_pod(resident(wanted, answer.node))
    _arrive(cluster, pod, answer.row)
    return True


def _arrive(cluster: Cluster, pod: int, node: int) -> None:
    pods, now = cluster.pods, cluster.now
    pods.node[pod], pods.state[pod] = node, STARTING
    pods.placed[pod], pods.until[pod] = now, now + pods.startup_s[pod]
    cluster.nodes.version[node] += 1
    cluster.tally.placed(pod, max(0.0, now - float(pods.since[pod])))


def start(cluster: Cluster) -> None:
    """Starts the containers whose start delay ends within this step; they count as running in it. Records the delay."""
    pods, end = cluster.pods, cluster.now + cluster.step_s
    starting = np.flatnonzero(pods.state == STARTING)
    cluster.tally.down_s += float((np.minimum(pods.until[starting], end) - cluster.now).sum())
    ready = starting[pods.until[starting] < end]
    pods.state[ready], pods.started[ready] = RUNNING, pods.until[ready]
