"""The demand of all pods in a step. It depends on the seed, the step and the containers' start times, never on
decisions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from podfit.sim.load.curves import Floats, Traces, Usage, trace_for
from podfit.sim.scenario.model import Scenario
from podfit.vpa.policies.base import CPU, MEMORY, RESOURCES

_STREAMS = {CPU: 1, MEMORY: 2}
_CHOICES = 0


class Load:
    """The curves of all workloads. Pods are numbered workload by workload, in the order of the scenario."""

    def __init__(self, scenario: Scenario, traces: Traces | None = None) -> None:
        self._seed, self._step_s = scenario.seed, scenario.step_s
        self._before = round(scenario.history_s / scenario.step_s)
        ends = np.cumsum([workload.replicas for workload in scenario.workloads])
        self._parts = [
            slice(int(end) - workload.replicas, int(end))
            for end, workload in zip(ends, scenario.workloads, strict=True)
        ]
        self._count = int(ends[-1])
        self._curves: dict[str, list[Usage]] = {}
        self._noise: dict[str, Floats] = {}
        for resource in RESOURCES:
            random = self._random(resource, _CHOICES)
            curves = [
                workload.cpu_curve if resource == CPU else workload.memory_curve for workload in scenario.workloads
            ]
            self._curves[resource] = [
                Usage(
                    curve,
                    workload.replicas,
                    trace_for(f"workloads[{at}].usage.{resource}", curve, resource, traces or {}),
                    random,
                )
                for at, (curve, workload) in enumerate(zip(curves, scenario.workloads, strict=True))
            ]
            replicas = [workload.replicas for workload in scenario.workloads]
            self._noise[resource] = np.repeat([curve.noise for curve in curves], replicas)

    def _random(self, resource: str, number: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([self._seed, _STREAMS[resource], number])))

    def at(self, resource: str, step: int, uptime: Floats) -> Floats:
        """The cores or bytes that each pod would use. Steps before the simulation are negative."""
        random = self._random(resource, step + self._before + 1)
        draws = random.random(self._count)
        out = np.empty(self._count)
        now = step * self._step_s
        for part, usage in zip(self._parts, self._curves[resource], strict=True):
            out[part] = usage.at(now, self._step_s, uptime[part], draws[part])
        return self._noisy(resource, out, random)

    def _noisy(self, resource: str, out: Floats, random: np.random.Generator) -> Floats:
        """Multiplies usage by random noise with a mean of 1."""
        sigma = self._noise[resource]
        noisy: NDArray[np.intp] = np.flatnonzero(sigma)
        if len(noisy):
            spread = sigma[noisy]
            out[noisy] *= np.exp(spread * random.standard_normal(self._count)[noisy] - spread * spread / 2)
        return out
