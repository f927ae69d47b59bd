"""All pods as arrays, one entry for each replica. Amounts are whole millicores and bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from podfit.sim.scenario.model import Scenario

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.intp]
"""Numbers of pods."""

PENDING, STARTING, RUNNING, LOST = 0, 1, 2, 3
"""The states of a pod: without a node; on a node, starting until `until`; running; on a node that is down."""
SETTLED, UNJUDGED, DEFERRED, INFEASIBLE, IN_PROGRESS = 0, 1, 2, 3, 4
"""The states of a pod's resize. In progress means that memory cannot be lowered below usage."""
NOWHERE = -1


class Pods:
    def __init__(self, scenario: Scenario) -> None:
        workloads = scenario.workloads
        replicas = [workload.replicas for workload in workloads]
        count = sum(replicas)
        self.workload: Ints = np.repeat(np.arange(len(workloads)), replicas)
        self.first: Ints = np.concatenate([[0], np.cumsum(replicas)[:-1]]).astype(np.int64)
        """The first pod of each workload."""
        self.priority: Ints = self._of([workload.priority for workload in workloads])
        self.startup_s: Floats = np.asarray([workload.startup_s for workload in workloads], np.float64)[self.workload]
        self.cpu_ratio = self._ratio([(each.cpu, each.limits.cpu) for each in workloads])
        """The ratio of limit to request, which every resize keeps, as in the autoscaler. Infinite without a limit."""
        self.memory_ratio = self._ratio([(each.memory, each.limits.memory) for each in workloads])

        self.state = np.full(count, PENDING, np.int8)
        self.node: Ints = np.full(count, NOWHERE, np.int64)
        self.since: Floats = np.zeros(count)
        """When the pod was created, or recreated after an eviction."""
        self.until: Floats = np.zeros(count)
        """When a starting container will run, or a lost pod will be evicted."""
        self.started: Floats = np.zeros(count)
        """When the container started; `placed` is when the pod got its node."""
        self.placed: Floats = np.zeros(count)
        self.restarts = np.zeros(count, np.int64)
        """The number of failures in a row, which determines the back-off."""
        self.quick_oom: Flags = np.zeros(count, np.bool_)

        self.want_cpu: Ints = self._of([workload.cpu for workload in workloads])
        """The desired size; `cpu` and `memory` are the allocated one."""
        self.want_memory: Ints = self._of([workload.memory for workload in workloads])
        self.cpu, self.memory = self.want_cpu.copy(), self.want_memory.copy()
        self.resize = np.full(count, SETTLED, np.int8)
        self.resize_since: Floats = np.zeros(count)
        self.judged_at: Ints = np.full(count, -1, np.int64)
        """The node's version at the last verdict; the verdict is valid until the version changes."""

        self.used_memory: Floats = np.zeros(count)
        self.backlog: Floats = np.zeros(count)
        """Pending work in core-seconds."""

    def __len__(self) -> int:
        return len(self.workload)

    def _of(self, values: list[int]) -> Ints:
        return np.asarray(values, np.int64)[self.workload]

    def _ratio(self, pairs: list[tuple[int, int | None]]) -> Floats:
        ratios = [np.inf if limit is None else limit / request for request, limit in pairs]
        return np.asarray(ratios, np.float64)[self.workload]

    @property
    def on_node(self) -> Flags:
        return np.asarray(self.state != PENDING)

    @property
    def running(self) -> Flags:
        return np.asarray(self.state == RUNNING)

    def cpu_limit(self) -> Floats:
        """The CPU limits in cores."""
        return self.cpu * self.cpu_ratio / 1000.0

    def memory_limit(self) -> Floats:
        return self.memory * self.memory_ratio

    def counted(self) -> tuple[Ints, Ints]:
        """The sizes that the scheduler counts: the larger of desired and allocated, or the allocated one of an
        infeasible resize."""
        plain = self.resize == INFEASIBLE
        cpu = np.where(plain, self.cpu, np.maximum(self.cpu, self.want_cpu))
        memory = np.where(plain, self.memory, np.maximum(self.memory, self.want_memory))
        return cpu, memory
