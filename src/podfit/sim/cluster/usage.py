"""The resources that pods get in a step: CPU is shared and throttled, and memory usage above the limit kills the
container."""

from __future__ import annotations

import numpy as np

from podfit.sim.cluster.pods import STARTING, Floats, Ints, Numbers
from podfit.sim.cluster.state import Cluster
from podfit.vpa.policies.base import CPU, MEMORY

BACKOFF_S, MOST_BACKOFF_S, QUIET_S = 10.0, 300.0, 600.0
"""As in the kubelet: restarts are delayed by 10 s, doubled each time up to five minutes; ten minutes of running reset
that."""
QUICK_S = 600.0
"""A kill this soon after the start makes the updater act regardless of the bounds."""
QUEUE_S = 3600.0
"""Pending work is limited to what the requested CPU does in this time; more of it is rejected."""
OVER = 1.001
"""The sample of a killed container, relative to its limit: just above it, since the usage it would have had is
unknown."""
_ROUNDING = 1e-9


def consume(cluster: Cluster) -> None:
    pods, step_s = cluster.pods, cluster.step_s
    cluster.sampled, cluster.sampled_on = pods.running, pods.node.copy()
    cluster.limits_cpu, cluster.limits_memory = pods.cpu_limit(), pods.memory_limit()
    # A container that starts within this step is sampled at the end of it.
    uptime = cluster.now + step_s - pods.started
    cluster.demand_cpu = cluster.load.at(CPU, cluster.step, uptime)
    cluster.demand_memory = cluster.load.at(MEMORY, cluster.step, uptime)
    _work(cluster)
    cluster.killed = cluster.sampled & (cluster.demand_memory > cluster.limits_memory)
    pods.used_memory = np.where(cluster.sampled & ~cluster.killed, cluster.demand_memory, 0.0)
    _kill(cluster, np.flatnonzero(cluster.killed))


def _work(cluster: Cluster) -> None:
    """Distributes CPU. Work that is not done in a step is carried over to the next one."""
    pods, step_s = cluster.pods, cluster.step_s
    wanted = np.where(cluster.sampled, cluster.demand_cpu + pods.backlog / step_s, 0.0)
    got = np.minimum(wanted, cluster.limits_cpu)
    running = np.flatnonzero(cluster.sampled)
    got[running] = shared(got[running], pods.cpu[running], pods.node[running], cluster.nodes.cpu / 1000.0)
    late = (wanted - got) * step_s
    cluster.throttled = late > _ROUNDING * wanted * step_s
    most = QUEUE_S * pods.cpu / 1000.0
    pods.backlog = np.where(cluster.throttled, np.minimum(late, most), 0.0)
    cluster.got_cpu = got


def shared(wanted: Floats, requests: Ints, node: Ints, capacity: Floats) -> Floats:
    """The cores that pods get on overcommitted nodes: in proportion to their requests, like the kernel's weights, and
    no pod more than its demand."""
    got = wanted.copy()
    count = len(capacity)
    total = np.bincount(node, wanted, count)
    open_ = np.flatnonzero((total > capacity)[node])
    left = capacity.copy()
    while len(open_):
        weights, at = np.maximum(requests[open_], 2).astype(np.float64), node[open_]
        offered = left[at] * weights / np.bincount(at, weights, count)[at]
        content = wanted[open_] <= offered
        if not content.any():
            got[open_] = offered
            break
        done = open_[content]
        left = np.maximum(left - np.bincount(node[done], wanted[done], count), 0.0)
        open_ = open_[~content]
    return got


def _kill(cluster: Cluster, killed: Numbers) -> None:
    """Kills containers at the end of the step. They start again after their back-off."""
    if not len(killed):
        return
    pods, end = cluster.pods, cluster.now + cluster.step_s
    ran_s = end - pods.started[killed]
    failures = np.where(ran_s > QUIET_S, 0, pods.restarts[killed])
    wait_s = np.minimum(BACKOFF_S * 2.0 ** np.minimum(failures, 30), MOST_BACKOFF_S)
    pods.restarts[killed] = failures + 1
    pods.quick_oom[killed] = ran_s < QUICK_S
    pods.state[killed], pods.until[killed], pods.backlog[killed] = STARTING, end + wait_s, 0.0


def observe(cluster: Cluster, measured: bool) -> None:
    """Passes the metrics of this step to the recommender; none while metrics are missing."""
    blind = ~cluster.sampled if measured else np.ones(len(cluster.pods), np.bool_)
    over = cluster.limits_memory * OVER
    memory = np.where(cluster.killed, np.minimum(cluster.demand_memory, over), cluster.demand_memory)
    cpu = np.where(blind, np.nan, cluster.got_cpu)
    cluster.recommender.observe(cluster.step, cpu, np.where(blind, np.nan, memory), cluster.killed & measured)
