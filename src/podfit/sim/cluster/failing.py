"""Faults: nodes fail and recover, metrics are missing, the recommender is down."""

from __future__ import annotations

import numpy as np

from podfit.sim.cluster.pods import LOST, RUNNING, STARTING
from podfit.sim.cluster.state import Cluster
from podfit.sim.report.tally import NODE_FAILURE
from podfit.sim.scenario.model import METRICS_GAP, NODE_DOWN, RECOMMENDER_DOWN

GIVE_UP_S = 40.0 + 300.0
"""A node that is silent for 40 s counts as unreachable; its pods tolerate that for five minutes."""


def fail(cluster: Cluster) -> None:
    for at, fault in enumerate(cluster.scenario.faults):
        if fault.kind == NODE_DOWN and at not in cluster.failed and fault.active(cluster.now, cluster.step_s):
            among = cluster.nodes.group_members(fault.nodes)
            among = among[cluster.nodes.alive[among]]
            chosen = cluster.random.sample(among.tolist(), min(fault.count, len(among)))
            cluster.failed[at] = np.array(sorted(chosen), np.intp)
            _down(cluster, cluster.failed[at])
    _give_up(cluster)
    for at, nodes in cluster.failed.items():
        if len(nodes) and not cluster.scenario.faults[at].active(cluster.now, cluster.step_s):
            _up(cluster, nodes)
            cluster.failed[at] = np.zeros(0, np.intp)


def _down(cluster: Cluster, nodes: np.ndarray[tuple[int], np.dtype[np.intp]]) -> None:
    pods = cluster.pods
    cluster.nodes.set_down(nodes, True)
    lost = np.flatnonzero(np.isin(pods.node, nodes) & ((pods.state == RUNNING) | (pods.state == STARTING)))
    pods.state[lost], pods.until[lost] = LOST, cluster.now + GIVE_UP_S
    pods.backlog[lost], pods.used_memory[lost] = 0.0, 0.0


def _give_up(cluster: Cluster) -> None:
    pods = cluster.pods
    gone = np.flatnonzero((pods.state == LOST) & (pods.until <= cluster.now))
    if len(gone):
        cluster.evict(gone, NODE_FAILURE)


def _up(cluster: Cluster, nodes: np.ndarray[tuple[int], np.dtype[np.intp]]) -> None:
    """Nodes recover. Pods on them that were not evicted in the meantime start again."""
    pods = cluster.pods
    cluster.nodes.set_down(nodes, False)
    back = np.flatnonzero(np.isin(pods.node, nodes) & (pods.state == LOST))
    pods.state[back], pods.until[back] = STARTING, cluster.now + pods.startup_s[back]
    cluster.tally.restarted(back)


def measured(cluster: Cluster) -> bool:
    return not _any(cluster, METRICS_GAP)


def recommending(cluster: Cluster) -> bool:
    return not _any(cluster, RECOMMENDER_DOWN)


def _any(cluster: Cluster, kind: str) -> bool:
    return any(fault.kind == kind and fault.active(cluster.now, cluster.step_s) for fault in cluster.scenario.faults)
