"""The results of simulated runs: the numbers of a backtest, and those of the cluster as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from podfit.cli.backtesting.history import History
from podfit.cli.backtesting.results import IN_PLACE, RECREATE, Result
from podfit.sim.run import Run
from podfit.sim.scenario.model import RECREATE as MODE_RECREATE
from podfit.sim.scenario.model import Scenario
from podfit.vpa.policies.base import DAY, RESOURCES, Costs, UsageSeries

VARIOUS = "various"
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """A run with its policy and update mode."""

    policy: str
    mode: str
    run: Run
    label: str

    def results(self) -> list[Result]:
        """The numbers of a backtest, with workloads in place of containers."""
        tally, scenario = self.run.tally, self.run.scenario
        mode = RECREATE if self.mode == MODE_RECREATE else IN_PLACE
        return [
            Result(
                self.label,
                resource,
                tally.quality(resource),
                tuple(tally.quality(resource, at) for at in range(len(scenario.workloads))),
                tally.sums[resource].size_curve,
                Costs(),
                mode,
            )
            for resource in RESOURCES
        ]

    def row(self, result: Result, workload: int | None = None) -> dict[str, Any]:
        """The numbers of a workload. Unlike a backtest, which counts days with kills, these include every restart."""
        quality = result.total if workload is None else result.each[workload]
        rows = slice(None) if workload is None else slice(workload, workload + 1)
        days = max(1e-9, self.pod_days if workload is None else self._pod_days(workload))
        restarts = float(self.run.tally.restarts[rows].sum()) / days
        return {**result.row(quality), "restartsADay": round(restarts, 6)}

    @property
    def pod_days(self) -> float:
        return self.run.scenario.pods * self.run.scenario.steps * self.run.scenario.step_s / DAY

    def _pod_days(self, workload: int) -> float:
        scenario = self.run.scenario
        return scenario.workloads[workload].replicas * scenario.steps * scenario.step_s / DAY

    def cluster(self) -> dict[str, Any]:
        """Numbers of the cluster as a whole."""
        tally = self.run.tally
        waits = np.array(tally.waits or [0.0])
        return {
            "evictions": {cause: int(counts.sum()) for cause, counts in tally.evictions.items()},
            "oomKills": int(tally.kills.sum()),
            "restarts": int(tally.restarts.sum()),
            "resizes": int(tally.resizes.sum()),
            "infeasibleResizes": tally.infeasible,
            "deferredHours": _rounded(float(tally.deferred_s.sum()) / HOUR_S),
            "pendingHours": _rounded(float(tally.pending_s.sum()) / HOUR_S),
            "longestPendingSeconds": _rounded(max(tally.longest_wait_s, float(waits.max()))),
            "placements": tally.placements,
            "delayedPlacements": len(tally.waits),
            "downHours": _rounded(tally.down_s / HOUR_S),
            "fragmentation": {"mean": _mean(tally.fragmented), "max": _rounded(max(tally.fragmented))},
            "allocated": {resource: _mean(tally.allocated[resource]) for resource in RESOURCES},
            "checkedSteps": self.run.checks,
        }


def _mean(values: list[float]) -> float:
    return _rounded(sum(values) / len(values))


def _rounded(value: float) -> float:
    return round(value, 6)


def name_of(scenario: Scenario) -> tuple[str, str]:
    """The policy and the mode of all workloads, or `various`."""
    policies = {workload.autoscaler.policy or scenario.policy for workload in scenario.workloads}
    modes = {workload.autoscaler.mode for workload in scenario.workloads}
    return tuple(found.pop() if len(found) == 1 else VARIOUS for found in (policies, modes))  # type: ignore[return-value]


def history_of(run: Run) -> History:
    """The mean demand of the pods of each workload, for charts."""
    scenario, sums = run.scenario, run.tally.sums
    names = tuple(workload.name for workload in scenario.workloads)
    return History(names, {name: UsageSeries(sums[name].demand_curve, scenario.step_s, name) for name in RESOURCES})


def as_object(runs: list[Named]) -> dict[str, Any]:
    """The output of `-o json`."""
    scenario = runs[0].run.scenario
    return {
        "kind": "SimulationReport",
        "scenario": {
            "nodes": sum(group.count for group in scenario.nodes),
            "pods": scenario.pods,
            "workloads": len(scenario.workloads),
            "steps": scenario.steps,
            "stepSeconds": scenario.step_s,
            "seed": scenario.seed,
        },
        "runs": [
            {
                "policy": run.policy,
                "mode": run.mode,
                "cluster": run.cluster(),
                "resources": {result.resource: _resource(run, result) for result in run.results()},
            }
            for run in runs
        ],
    }


def _resource(run: Named, result: Result) -> dict[str, Any]:
    workloads = run.run.scenario.workloads
    return {
        "total": run.row(result),
        "workloads": [{"name": workload.name, **run.row(result, at)} for at, workload in enumerate(workloads)],
    }
