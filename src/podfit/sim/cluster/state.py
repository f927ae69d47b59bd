"""The simulated cluster: all state that a phase of a step may read and change."""

from __future__ import annotations

import random

import numpy as np

from podfit.api.objects import Object
from podfit.scheduler.decide.pod.needs import Needs, needs_of
from podfit.sim.autoscaler.recommending import Recommender
from podfit.sim.cluster.nodes import Nodes
from podfit.sim.cluster.objects import NAMESPACE, Template
from podfit.sim.cluster.pods import NOWHERE, PENDING, SETTLED, Flags, Numbers, Pods
from podfit.sim.load.curves import Floats, Traces
from podfit.sim.load.load import Load
from podfit.sim.report.tally import Tally
from podfit.sim.scenario.model import OFF, Scenario

_MOST_NEEDS = 65536


class Cluster:
    def __init__(self, scenario: Scenario, traces: Traces | None = None) -> None:
        self.scenario = scenario
        self.pods, self.nodes = Pods(scenario), Nodes(scenario)
        self.templates = [Template(workload) for workload in scenario.workloads]
        self.load = Load(scenario, traces)
        self.recommender = Recommender(scenario, self.pods.first)
        self.tally = Tally(scenario, self.pods.workload)
        self.step, self.now = 0, 0.0
        self.random = random.Random(scenario.seed)
        """For the scheduler's choices among equal nodes, and for the choice of failing nodes."""
        self.failed: dict[int, Numbers] = {}
        """The nodes that each fault has taken down."""
        count = len(self.pods)
        self.demand_cpu, self.demand_memory = np.zeros(count), np.zeros(count)
        self.got_cpu: Floats = np.zeros(count)
        self.sampled: Flags = np.zeros(count, np.bool_)
        """Pods that ran in this step; the others have no measurements."""
        self.killed: Flags = np.zeros(count, np.bool_)
        self.throttled: Flags = np.zeros(count, np.bool_)
        self.limits_cpu, self.limits_memory = self.pods.cpu_limit(), self.pods.memory_limit()
        """The limits in force in this step; a pod that is evicted at its end has others afterwards."""
        self.sampled_on = self.pods.node.copy()
        self._needs: dict[tuple[int, int], Needs] = {}
        workloads = scenario.workloads
        self._workloads = {workload.name: at for at, workload in enumerate(workloads)}
        self._template_cpu = np.array([workload.cpu for workload in workloads], np.int64)
        self._template_memory = np.array([workload.memory for workload in workloads], np.int64)
        self._off = np.array([workload.autoscaler.mode == OFF for workload in workloads])
        self.names = [
            (NAMESPACE, f"{workload.name}-{replica}") for workload in workloads for replica in range(workload.replicas)
        ]
        """The key of each pod on the scheduler's board."""

    @property
    def step_s(self) -> float:
        return self.scenario.step_s

    def number_of(self, key: tuple[str, str]) -> int:
        """The number of the pod with this key."""
        workload, _, replica = key[1].rpartition("-")
        return int(self.pods.first[self._workloads[workload]]) + int(replica)

    def needs(self, cpu: int, memory: int) -> Needs:
        """The resources that a pod of this size takes on its node, as the scheduler counts them."""
        found = self._needs.get((cpu, memory))
        if found is None:
            if len(self._needs) >= _MOST_NEEDS:
                self._needs.clear()
            found = self._needs[cpu, memory] = needs_of(self.templates[0].pod(0, cpu, memory), use_status=False)
        return found

    def recount(self, changed: Numbers) -> None:
        """Updates the scheduler's board to the current sizes of the changed pods."""
        cpu, memory = (values[changed].tolist() for values in self.pods.counted())
        snapshot = self.nodes.board.snapshot
        for pod, milli, amount in zip(changed.tolist(), cpu, memory, strict=True):
            snapshot.resize_pod(snapshot.pods[self.names[pod]], self.needs(milli, amount))
        np.add.at(self.nodes.version, self.pods.node[changed], 1)

    def evict(self, evicted: Numbers, cause: str, at: float | None = None) -> None:
        """Removes pods from their nodes, now or `at` the end of the step. Their controllers recreate them, with the
        recommendation that is then current."""
        pods = self.pods
        np.add.at(self.nodes.version, pods.node[evicted], 1)
        for pod in evicted.tolist():
            self.nodes.board.snapshot.remove_pod(self.names[pod])
        self.tally.evicted(evicted, cause)
        pods.state[evicted], pods.node[evicted] = PENDING, NOWHERE
        pods.since[evicted] = self.now if at is None else at
        pods.resize[evicted], pods.restarts[evicted], pods.quick_oom[evicted] = SETTLED, 0, False
        pods.backlog[evicted], pods.used_memory[evicted] = 0.0, 0.0
        self.admit(evicted)

    def admit(self, created: Numbers) -> None:
        """Acts as the autoscaler's webhook: new pods get the recommendation, or else their workload's requests."""
        pods, workload = self.pods, self.pods.workload[created]
        cpu, memory, off = self.recommender.cpu[workload], self.recommender.memory[workload], self._off[workload]
        pods.want_cpu[created] = np.where(off | (cpu < 0), self._template_cpu[workload], cpu)
        pods.want_memory[created] = np.where(off | (memory < 0), self._template_memory[workload], memory)
        pods.cpu[created], pods.memory[created] = pods.want_cpu[created], pods.want_memory[created]

    def pod_object(self, pod: int) -> Object:
        """A pod's API object, with its current requests."""
        pods, workload = self.pods, int(self.pods.workload[pod])
        replica = pod - int(pods.first[workload])
        return self.templates[workload].pod(replica, int(pods.want_cpu[pod]), int(pods.want_memory[pod]))
