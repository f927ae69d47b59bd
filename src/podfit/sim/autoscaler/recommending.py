"""The recommender of the simulation: records each workload's usage, and computes the size that its policy gives it now.

Policies are functions of whole histories whose sizes at a sample depend on earlier samples alone, so the current size
is the size at one unknown sample appended to the history. Policies run every hour, and at once after a sample above the
size. One series represents a workload: at each step the pod with the highest usage, as in `podfit recommend --policy`.
"""

from __future__ import annotations

import numpy as np

from podfit.sim.autoscaler import bounds
from podfit.sim.cluster.pods import Flags, Floats, Ints
from podfit.sim.scenario.model import OFF, Scenario, Size
from podfit.vpa.policies.base import CPU, HOUR, MEMORY, UsageSeries, sizes_of
from podfit.vpa.policies.table import POLICIES

UNKNOWN = -1
LEAST = {CPU: 10, MEMORY: 32 << 20}
"""The minimum recommendation: 10m and 32Mi."""


class Recommender:
    def __init__(self, scenario: Scenario, first: Ints) -> None:
        self._scenario, self._first = scenario, first
        workloads, steps = scenario.workloads, scenario.steps
        self._before = round(scenario.history_s / scenario.step_s)
        self._seen = {
            resource: np.full((len(workloads), self._before + steps + 1), np.nan, np.float32)
            for resource in (CPU, MEMORY)
        }
        self.cpu: Ints = np.full(len(workloads), UNKNOWN, np.int64)
        """Targets in millicores and bytes; negative without a recommendation."""
        self.memory: Ints = np.full(len(workloads), UNKNOWN, np.int64)
        self.low = {resource: np.zeros(len(workloads), np.int64) for resource in (CPU, MEMORY)}
        """Requests outside of `low` to `high` are updated."""
        self.high = {resource: np.zeros(len(workloads), np.int64) for resource in (CPU, MEMORY)}
        self._policies: dict[tuple[str, bool], list[int]] = {}
        """The workloads of each policy, and whether their bounds are narrow."""
        for at, workload in enumerate(workloads):
            mode, policy = workload.autoscaler.mode, workload.autoscaler.policy or scenario.policy
            if mode != OFF:
                self._policies.setdefault((policy, bounds.is_narrow(mode, policy)), []).append(at)
        self._least, self._most = _bounds(scenario, "least"), _bounds(scenario, "most")
        self._due: Flags = np.ones(len(workloads), np.bool_)

    @property
    def active(self) -> bool:
        """Whether the autoscaler of any workload recommends sizes."""
        return bool(self._policies)

    def observe(self, step: int, cpu: Floats, memory: Floats, killed: Flags) -> None:
        """Records the usage of all pods in a step, NaN where it was not measured, and the pods that were OOM-killed."""
        column = self._before + step
        self._due |= np.logical_or.reduceat(killed, self._first)
        for resource, unit, values, targets in ((CPU, 1000.0, cpu, self.cpu), (MEMORY, 1.0, memory, self.memory)):
            most = np.fmax.reduceat(values, self._first)
            self._seen[resource][:, column] = most
            self._due |= (targets >= 0) & (most * unit > targets)

    def recommend(self, step: int) -> None:
        """Sets the targets for this step from the samples before it."""
        hour = max(1, round(HOUR / self._scenario.step_s))
        if (self._before + step) % hour == 0 or step == 0:
            self._due[:] = True
        if not self._due.any():
            return
        for (policy, narrow), members in self._policies.items():
            rows = np.array([at for at in members if self._due[at]], np.intp)
            if len(rows):
                self._set(policy, narrow, rows, self._before + step)
        self._due[:] = False

    def _set(self, policy: str, narrow: bool, rows: Ints, column: int) -> None:
        for resource, unit, targets in ((CPU, 1000.0, self.cpu), (MEMORY, 1.0, self.memory)):
            seen = self._seen[resource][rows, : column + 1]
            seen[:, column] = np.nan
            series = UsageSeries(seen, self._scenario.step_s, resource)
            sizes = sizes_of(POLICIES[policy], series)[:, column]
            amounts = np.ceil(sizes.astype(np.float64) * unit - 1e-3)
            known = np.isfinite(amounts)
            bounded = np.clip(np.where(known, amounts, 0), self._least[resource][rows], self._most[resource][rows])
            targets[rows] = np.where(known, bounded.astype(np.int64), targets[rows])
            low, high = bounds.near(targets[rows]) if narrow else bounds.usual(series, targets[rows], unit)
            # A capped target has bounds within the same limits.
            self.low[resource][rows] = np.minimum(low, targets[rows])
            self.high[resource][rows] = np.maximum(np.minimum(high, self._most[resource][rows]), targets[rows])


def _bounds(scenario: Scenario, side: str) -> dict[str, Floats]:
    found = {}
    for resource in (CPU, MEMORY):
        sizes: list[Size] = [getattr(workload.autoscaler, side) for workload in scenario.workloads]
        otherwise = float(LEAST[resource]) if side == "least" else float(2**50)
        given = [getattr(size, resource) for size in sizes]
        found[resource] = np.array([otherwise if size is None else max(float(size), 1.0) for size in given])
    return found
