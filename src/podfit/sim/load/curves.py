"""Usage curves for many pods at once. Each kind of curve is a function of time and of how long the container
has run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podfit.sim.scenario.fields import BadScenario
from podfit.sim.scenario.model import BURSTS, CONSTANT, DAILY, LEAK, RAMP, TRACE, Curve

Floats = NDArray[np.float64]
DAY_S = 86400.0


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Recorded series [series, sample], in cores, bytes, or fractions of the whole; NaN where unknown."""

    samples: NDArray[np.float32]
    step_s: float


Traces = Mapping[tuple[str, str], Trace]
"""Traces by file and resource."""


class Usage:
    """One curve, evaluated for all replicas of a workload."""

    def __init__(self, curve: Curve, replicas: int, trace: Trace | None, random: np.random.Generator) -> None:
        self.curve, self._trace = curve, trace
        self._burst_ends = np.full(replicas, -np.inf)
        # Drawn even if the curve does not need it, so that a change of one curve does not affect the others.
        draws = random.random(replicas)
        if trace is None:
            self._rows = np.zeros(replicas, np.int64)
        elif curve.series is None:
            self._rows = (draws * len(trace.samples)).astype(np.int64)
        else:
            self._rows = np.full(replicas, curve.series, np.int64)

    def at(self, now: float, step_s: float, uptime: Floats, draws: Floats) -> Floats:
        """The usage of each replica. `draws` are uniform random numbers, one per replica, which decide whose bursts
        begin."""
        curve, count = self.curve, len(uptime)
        if curve.kind == CONSTANT:
            return np.full(count, curve.low)
        if curve.kind == DAILY:
            swing = 0.5 + 0.5 * np.cos(2 * np.pi * (now - curve.peak_s) / DAY_S)
            return np.full(count, curve.low + (curve.high - curve.low) * swing)
        if curve.kind == RAMP:
            part = min(1.0, max(0.0, now / curve.over_s))
            return np.full(count, curve.low + (curve.high - curve.low) * part)
        if curve.kind == LEAK:
            return np.asarray(curve.low + curve.rate * np.maximum(uptime, 0.0))
        if curve.kind == BURSTS:
            begins = (now >= self._burst_ends) & (draws < step_s / curve.every_s)
            self._burst_ends = np.where(begins, now + curve.over_s, self._burst_ends)
            return np.where(now < self._burst_ends, curve.high, curve.low)
        return self._traced(now)

    def _traced(self, now: float) -> Floats:
        """The usage recorded in the trace, which repeats from its beginning when it ends. A gap counts as no usage."""
        assert self._trace is not None
        samples = self._trace.samples
        column = int(now // self._trace.step_s) % samples.shape[1]
        known = np.nan_to_num(samples[self._rows, column].astype(np.float64))
        return np.asarray(known * self.curve.scale)


def trace_for(path: str, curve: Curve, resource: str, traces: Traces) -> Trace | None:
    """The trace of a curve; None for other kinds. `path` is the curve's location in the scenario."""
    if curve.kind != TRACE:
        return None
    found = traces.get((curve.file, resource))
    if found is None:
        raise BadScenario(f"{path}.file: {curve.file} has no {resource}")
    if curve.series is not None and curve.series >= len(found.samples):
        raise BadScenario(f"{path}.series: {curve.series} of {len(found.samples)} series; they are counted from 0")
    return found
