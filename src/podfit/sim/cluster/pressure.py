"""Nodes that run out of memory: the agent's ranking chooses the pods to evict, one after the other."""

from __future__ import annotations

import numpy as np

from podfit.agent.decide.node.eviction import Consumer, victim
from podfit.sim.cluster.state import Cluster
from podfit.sim.report.tally import PRESSURE


def relieve(cluster: Cluster) -> None:
    """Evicts pods from nodes whose memory is exhausted. Pods may use more than they request, up to their limits, so
    their total usage can exceed the node's memory."""
    pods, nodes = cluster.pods, cluster.nodes
    on = np.flatnonzero(pods.running & (pods.used_memory > 0))
    used = nodes.sums(pods.node[on], pods.used_memory[on])
    for node in np.flatnonzero(used > nodes.memory).tolist():
        here = on[pods.node[on] == node]
        over = float(used[node] - nodes.memory[node])
        consumers = [Consumer(str(pod), _allocated(cluster, pod), int(pods.used_memory[pod])) for pod in here.tolist()]
        leaving = []
        while over > 0 and (found := victim(consumers)) is not None:
            consumers.remove(found)
            leaving.append(int(found.uid))
            over -= float(pods.used_memory[leaving[-1]])
        # The pods are removed at the end of the step.
        cluster.evict(np.array(leaving, np.intp), PRESSURE, cluster.now + cluster.step_s)


def _allocated(cluster: Cluster, pod: int) -> dict[str, object]:
    pods = cluster.pods
    template = cluster.templates[int(pods.workload[pod])]
    return template.pod(0, int(pods.cpu[pod]), int(pods.memory[pod]))
