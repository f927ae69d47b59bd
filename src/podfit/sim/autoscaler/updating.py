"""The updater of the simulation: which pods are updated, how many at once, and whether in place or by eviction.

It applies the rules of `vpa/updater/decide` to all pods at once: `worth`, `disturbable` and `update` decide as
`worth_updating`, `Group.disruptable` and a pass do (property tests compare them). There is one pass per step.
"""

from __future__ import annotations

import numpy as np

from podfit.sim.cluster.pods import (
    DEFERRED,
    IN_PROGRESS,
    INFEASIBLE,
    LOST,
    PENDING,
    SETTLED,
    UNJUDGED,
    Flags,
    Floats,
    Ints,
    Numbers,
)
from podfit.sim.cluster.state import Cluster
from podfit.sim.report.tally import UPDATER
from podfit.sim.scenario.model import IN_PLACE, IN_PLACE_OR_RECREATE, RECREATE, Scenario
from podfit.vpa.policies.base import CPU, MEMORY
from podfit.vpa.updater.decide.config import UpdateConfig

CONFIG = UpdateConfig(timeouts_per_attempt=True)
"""podfit's own setting: a timeout counts from the start of its resize."""


def difference(cpu: Ints, memory: Ints, target_cpu: Ints, target_memory: Ints) -> Floats:
    """The distance of requests from their targets, relative to the requests, summed over resources."""
    first = np.abs(cpu - target_cpu) / np.maximum(cpu, 1)
    second = np.abs(memory - target_memory) / np.maximum(memory, 1)
    return np.asarray(first + second, np.float64)


def worth(out: Flags, differs: Floats, age_s: Floats, quick_oom: Flags, config: UpdateConfig = CONFIG) -> Flags:
    """Whether pods are worth updating: outside their bounds, OOM-killed soon after their start, or old and far enough
    from their target."""
    old = age_s >= config.in_recommendation_bounds_eviction_lifetime_threshold_s
    due = out | quick_oom | (old & (differs >= config.pod_update_threshold))
    return np.asarray(due & ~(quick_oom & (differs == 0)))


def disturbable(configured: Ints, running: Ints, config: UpdateConfig = CONFIG) -> Ints:
    """The number of replicas of each workload that may be disrupted in a pass."""
    tolerance = (configured * config.eviction_tolerance).astype(np.int64)
    alone = (configured == running) & (tolerance == 0)
    return np.where(alone, 1, np.maximum(running - configured + tolerance, 0))


class Updater:
    def __init__(self, scenario: Scenario) -> None:
        modes = [workload.autoscaler.mode for workload in scenario.workloads]
        self._in_place = np.array([mode == IN_PLACE for mode in modes])
        self._either = np.array([mode == IN_PLACE_OR_RECREATE for mode in modes])
        self._recreate = np.array([mode == RECREATE for mode in modes])
        self._replicas = np.array([workload.replicas for workload in scenario.workloads], np.int64)
        enough = [workload.replicas >= workload.autoscaler.min_replicas for workload in scenario.workloads]
        self._acting = (self._in_place | self._either | self._recreate) & np.array(enough)

    def __call__(self, cluster: Cluster) -> None:
        if not self._acting.any():
            return
        ranked = self._candidates(cluster)
        if not len(ranked):
            return
        pods = cluster.pods
        workload, resize = pods.workload[ranked], pods.resize[ranked]
        budget = disturbable(self._replicas, np.bincount(pods.workload[pods.on_node], minlength=len(self._replicas)))
        only, either = self._in_place[workload], self._either[workload]
        resizes = ranked[only]
        left, taken = _first(ranked[either & (resize == SETTLED)], pods.workload, budget)
        resizes = np.concatenate([resizes, taken])
        late = either & self._timed_out(cluster, ranked)
        leaving = np.sort(np.concatenate([np.flatnonzero(late), np.flatnonzero(self._recreate[workload])]))
        _, evicted = _first(ranked[leaving], pods.workload, left)
        self._resize(cluster, resizes)
        if len(evicted):
            cluster.evict(evicted, UPDATER)

    def _candidates(self, cluster: Cluster) -> Numbers:
        """Pods to update: those that must grow first, then the ones furthest from their target."""
        pods, recommended = cluster.pods, cluster.recommender
        known = self._acting & (recommended.cpu >= 0) & (recommended.memory >= 0)
        some = np.flatnonzero(known[pods.workload] & (pods.state != PENDING) & (pods.state != LOST))
        cpu, memory, workload = pods.cpu[some], pods.memory[some], pods.workload[some]
        target_cpu, target_memory = recommended.cpu[workload], recommended.memory[workload]
        out = np.zeros(len(some), np.bool_)
        for resource, requests in ((CPU, cpu), (MEMORY, memory)):
            out |= (requests < recommended.low[resource][workload]) | (requests > recommended.high[resource][workload])
        differs = difference(cpu, memory, target_cpu, target_memory)
        chosen = worth(out, differs, cluster.now - pods.placed[some], pods.quick_oom[some])
        up = (target_cpu > cpu) | (target_memory > memory)
        some, differs, up = some[chosen], differs[chosen], up[chosen]
        return np.asarray(some[np.lexsort((some, -differs, ~up))], np.intp)

    @staticmethod
    def _timed_out(cluster: Cluster, ranked: Numbers) -> Flags:
        """Resizes in place that took too long or are infeasible: these pods are evicted instead."""
        pods = cluster.pods
        waited, resize = cluster.now - pods.resize_since[ranked], pods.resize[ranked]
        deferred = (resize == DEFERRED) & (waited > CONFIG.deferred_timeout_s)
        stuck = (resize == IN_PROGRESS) & (waited > CONFIG.in_progress_timeout_s)
        return np.asarray(deferred | stuck | (resize == INFEASIBLE))

    @staticmethod
    def _resize(cluster: Cluster, resized: Numbers) -> None:
        pods, recommended = cluster.pods, cluster.recommender
        cpu, memory = (targets[pods.workload[resized]] for targets in (recommended.cpu, recommended.memory))
        lower = (cpu < pods.want_cpu[resized]) | (memory < pods.want_memory[resized])
        changes = (cpu != pods.want_cpu[resized]) | (memory != pods.want_memory[resized])
        # An infeasible resize is retried only when the target has decreased.
        sent = changes & (lower | (pods.resize[resized] != INFEASIBLE))
        resized, cpu, memory = resized[sent], cpu[sent], memory[sent]
        settled = resized[pods.resize[resized] == SETTLED]
        pods.resize_since[settled] = cluster.now
        pods.want_cpu[resized], pods.want_memory[resized] = cpu, memory
        pods.resize[resized] = UNJUDGED


def _first(ranked: Numbers, workload: Ints, budget: Ints) -> tuple[Ints, Numbers]:
    """The first pods of each workload within its budget, and the remaining budgets."""
    if not len(ranked):
        return budget, ranked
    own = workload[ranked]
    order = np.argsort(own, kind="stable")
    sorted_own = own[order]
    starts = np.searchsorted(sorted_own, sorted_own, side="left")
    taken = np.zeros(len(ranked), np.bool_)
    taken[order] = np.arange(len(ranked)) - starts < budget[sorted_own]
    chosen = ranked[taken]
    return budget - np.bincount(workload[chosen], minlength=len(budget)), chosen
