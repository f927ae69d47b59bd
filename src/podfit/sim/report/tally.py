"""Counts results by step and workload. Only sums are kept, so memory does not grow with the number of steps.

A pod's capacity is its request, or its usage if that was higher. The served part of its demand is the usage it
achieved; the rest was throttled, or led to an OOM kill.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podfit.sim.scenario.model import Scenario
from podfit.vpa.policies.base import CPU, DAY, MEMORY, RESOURCES
from podfit.vpa.policies.quality import CHANGE, Quality

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.intp]
UPDATER, PRESSURE, NODE_FAILURE, PREEMPTED = "updater", "memoryPressure", "nodeFailure", "preemption"
CAUSES = (UPDATER, PRESSURE, NODE_FAILURE, PREEMPTED)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One resource in one step, for all pods, in cores or bytes. `sampled` marks the running pods."""

    resource: str
    sampled: Flags
    demand: Floats
    got: Floats
    request: Floats
    short: Flags


class _Sums:
    """The sums for one resource, by workload."""

    def __init__(self, workloads: int, pods: int, steps: int) -> None:
        self.sized, self.served, self.used = (np.zeros(workloads) for _ in range(3))
        self.samples, self.short, self.changes, self.days, self.short_days = (
            np.zeros(workloads, np.int64) for _ in range(5)
        )
        self.today, self.short_today = np.zeros(pods, np.bool_), np.zeros(pods, np.bool_)
        self.last = np.full(pods, np.nan)
        self.demand_curve, self.size_curve = (np.full((workloads, steps), np.nan, np.float32) for _ in range(2))

    def add(self, sample: Sample, workload: Ints, step: int) -> None:
        count, some = len(self.sized), sample.sampled
        own = workload[some]

        def total(values: Floats) -> Floats:
            return np.asarray(np.bincount(own, values[some], count), np.float64)

        sized, demand = total(np.maximum(sample.request, sample.got)), total(sample.demand)
        self.sized += sized
        self.served += total(sample.got)
        self.used += demand
        pods = np.bincount(own, minlength=count)
        self.samples += pods
        self.short += np.bincount(workload[some & sample.short], minlength=count)
        moved = some & (np.abs(sample.request - self.last) > CHANGE * self.last)
        self.changes += np.bincount(workload[moved], minlength=count)
        self.last = np.where(some, sample.request, self.last)
        self.today |= some
        self.short_today |= some & sample.short
        with np.errstate(invalid="ignore", divide="ignore"):
            self.demand_curve[:, step] = demand / pods
            self.size_curve[:, step] = total(sample.request) / pods

    def end_day(self, workload: Ints) -> None:
        count = len(self.sized)
        self.days += np.bincount(workload[self.today], minlength=count)
        self.short_days += np.bincount(workload[self.short_today], minlength=count)
        self.today[:], self.short_today[:] = False, False

    def quality(self, resource: str, step_s: float, rows: slice) -> Quality:
        def total(values: NDArray[np.int64]) -> int:
            return int(values[rows].sum())

        return Quality(
            resource,
            sized=float(self.sized[rows].sum()),
            served=float(self.served[rows].sum()),
            used=float(self.used[rows].sum()),
            samples=total(self.samples),
            short_samples=total(self.short),
            days=total(self.days),
            short_days=total(self.short_days),
            changes=total(self.changes),
            scored=total(self.samples),
            step_s=step_s,
        )


class Tally:
    def __init__(self, scenario: Scenario, workload: Ints) -> None:
        count, steps = len(scenario.workloads), scenario.steps
        self._workload, self._step_s, self._steps = workload, scenario.step_s, steps
        self._day = max(1, round(DAY / scenario.step_s))
        self.sums = {resource: _Sums(count, len(workload), steps) for resource in RESOURCES}
        self.kills, self.restarts, self.resizes = (np.zeros(count, np.int64) for _ in range(3))
        self.evictions = {cause: np.zeros(count, np.int64) for cause in CAUSES}
        self.pending_s, self.deferred_s = np.zeros(count), np.zeros(count)
        self.waits: list[float] = []
        """How long pods waited for a node, for those that had to wait."""
        self.placements = self.preemptions = self.infeasible = 0
        self.down_s = self.longest_wait_s = 0.0
        self.fragmented: list[float] = []
        self.allocated: dict[str, list[float]] = {resource: [] for resource in RESOURCES}

    # --- events
    def evicted(self, pods: Numbers, cause: str) -> None:
        self.evictions[cause] += self._by_workload(pods)
        self.restarted(pods)

    def restarted(self, pods: Numbers) -> None:
        self.restarts += self._by_workload(pods)

    def killed(self, pods: Numbers) -> None:
        self.kills += self._by_workload(pods)
        self.restarted(pods)

    def resized(self, pods: Numbers) -> None:
        self.resizes += self._by_workload(pods)

    def placed(self, pod: int, waited_s: float) -> None:
        self.placements += 1
        if waited_s > 0:
            self.waits.append(waited_s)

    def waiting(self, pending: Numbers, deferred: Numbers, longest_s: float) -> None:
        """Counts pods that had no node, and pods whose resize was deferred, for the whole of this step."""
        self.pending_s += self._by_workload(pending) * self._step_s
        self.deferred_s += self._by_workload(deferred) * self._step_s
        self.longest_wait_s = max(self.longest_wait_s, longest_s)

    def _by_workload(self, pods: Numbers) -> Ints:
        return np.bincount(self._workload[pods], minlength=len(self.kills)).astype(np.int64)

    # --- samples
    def sample(self, step: int, *samples: Sample) -> None:
        for sample in samples:
            self.sums[sample.resource].add(sample, self._workload, step)
        if (step + 1) % self._day == 0 or step + 1 == self._steps:
            for sums in self.sums.values():
                sums.end_day(self._workload)

    def nodes(self, fragmentation: float, cpu: float, memory: float) -> None:
        """Records the fragmentation of the free capacity of nodes that are up, and the fraction that is allocated."""
        self.fragmented.append(fragmentation)
        self.allocated[CPU].append(cpu)
        self.allocated[MEMORY].append(memory)

    def quality(self, resource: str, workload: int | None = None) -> Quality:
        rows = slice(None) if workload is None else slice(workload, workload + 1)
        return self.sums[resource].quality(resource, self._step_s, rows)


def fragmentation(free_cpu: Ints, free_memory: Ints, cpu: float, memory: float) -> float:
    """The fraction of free capacity that pods of this size cannot use, because it is spread over nodes."""
    if cpu <= 0 or memory <= 0:
        return 0.0
    together = min(float(free_cpu.sum()) // cpu, float(free_memory.sum()) // memory)
    apart = float(np.minimum(free_cpu // cpu, free_memory // memory).sum())
    return 1.0 - apart / together if together >= 1 else 0.0
