"""Runs a simulation: the phases of all steps in order, and the results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from podfit.sim import invariants
from podfit.sim.autoscaler.updating import Updater
from podfit.sim.cluster.failing import fail, measured, recommending
from podfit.sim.cluster.placing import schedule, start
from podfit.sim.cluster.pods import DEFERRED, PENDING
from podfit.sim.cluster.pressure import relieve
from podfit.sim.cluster.resizing import judge
from podfit.sim.cluster.state import Cluster
from podfit.sim.cluster.usage import consume, observe
from podfit.sim.load.curves import Traces
from podfit.sim.report.tally import Sample, Tally, fragmentation
from podfit.sim.scenario.model import Scenario
from podfit.vpa.policies.base import CPU, MEMORY

Phase = Callable[[Cluster], None]
Progress = Callable[[int, int], None]
"""Called with the number of completed steps and the number of all steps."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    scenario: Scenario
    tally: Tally
    checks: int
    """The number of steps after which the invariants were checked."""


def phases(scenario: Scenario) -> tuple[Phase, ...]:
    """The phases of a step: first the decisions, which use measurements from before the step, then their effects."""
    return fail, recommend, Updater(scenario), judge, schedule, start, consume, report, relieve


def simulate(scenario: Scenario, traces: Traces | None = None, progress: Progress | None = None) -> Run:
    cluster, steps = Cluster(scenario, traces), phases(scenario)
    remember(cluster)
    before = -scenario.step_s
    for step in range(scenario.steps):
        cluster.step, cluster.now = step, step * scenario.step_s
        for phase in steps:
            phase(cluster)
        invariants.check(cluster, before)
        before = cluster.now
        if progress is not None:
            progress(step + 1, scenario.steps)
    return Run(scenario, cluster.tally, scenario.steps)


def remember(cluster: Cluster) -> None:
    """Fills the recommender's history with usage before the simulation begins, as if no limit had applied."""
    if not cluster.recommender.active:
        return
    count = len(cluster.pods)
    fresh, nobody = np.zeros(count), np.zeros(count, np.bool_)
    for step in range(-round(cluster.scenario.history_s / cluster.step_s), 0):
        cpu, memory = (cluster.load.at(resource, step, fresh) for resource in (CPU, MEMORY))
        cluster.recommender.observe(step, cpu, memory, nobody)
    cluster.recommender.recommend(0)
    cluster.admit(np.arange(count))


def recommend(cluster: Cluster) -> None:
    if recommending(cluster):
        cluster.recommender.recommend(cluster.step)


def report(cluster: Cluster) -> None:
    """Passes metrics to the recommender, and records the step's results for the report."""
    observe(cluster, measured(cluster))
    pods, nodes, tally = cluster.pods, cluster.nodes, cluster.tally
    tally.killed(np.flatnonzero(cluster.killed))
    tally.sample(
        cluster.step,
        Sample(CPU, cluster.sampled, cluster.demand_cpu, cluster.got_cpu, pods.cpu / 1000.0, cluster.throttled),
        Sample(
            MEMORY,
            cluster.sampled,
            cluster.demand_memory,
            np.minimum(cluster.demand_memory, cluster.limits_memory),
            pods.memory.astype(np.float64),
            cluster.killed,
        ),
    )
    pending, deferred = np.flatnonzero(pods.state == PENDING), np.flatnonzero(pods.resize == DEFERRED)
    longest_s = float((cluster.now + cluster.step_s - pods.since[pending]).max(initial=0.0))
    tally.waiting(pending, deferred, longest_s)
    up = nodes.alive
    cpu, memory = nodes.held(pods)
    mean = (float(pods.cpu.mean()), float(pods.memory.mean()))
    tally.nodes(
        fragmentation((nodes.cpu - cpu)[up], (nodes.memory - memory)[up], *mean),
        float(cpu[up].sum()) / max(1.0, float(nodes.cpu[up].sum())),
        float(memory[up].sum()) / max(1.0, float(nodes.memory[up].sum())),
    )
