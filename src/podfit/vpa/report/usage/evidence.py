"""The usage data of each container of each workload, and the curves of the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.model.times import NEVER, Seconds
from podfit.vpa.recommender.decide.histograms.estimate import Estimate
from podfit.vpa.report.cluster.workloads import Key

PROMETHEUS, CHECKPOINTS, METRICS = "prometheus", "checkpoints", "metrics"
DAY = 86400.0
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Curve:
    """The usage of one container over time: at each step the maximum and the mean over all pods of its workload. NaN
    where nothing was measured."""

    start: Seconds
    step: Seconds
    cpu: Floats
    """The CPU usage in cores, of the pod with the highest usage."""
    cpu_mean: Floats
    memory: Floats
    """The memory usage in bytes."""
    memory_mean: Floats


@dataclass(frozen=True, slots=True)
class Evidence:
    source: str
    samples: int = 0
    first: Seconds = NEVER
    last: Seconds = NEVER
    pods: int = 0
    """The number of measured pods, deleted ones included."""
    size: Estimate = field(default_factory=lambda: Estimate({}, {}, {}))
    """The sizes from the policy for this usage; resources without samples are omitted."""
    used: Mapping[str, int] = field(default_factory=dict)
    """The 95th percentile of cpu (millicores) and the highest memory (bytes)."""
    mean: Mapping[str, int] = field(default_factory=dict)
    ooms: int = 0
    throttled: float | None = None
    """The fraction of CFS periods in which the container was throttled; None if unknown."""
    curve: Curve | None = None
    policy: str = "default"
    """The policy of the sizes."""
    coverage: float = 1.0
    """The fraction of the queried time with samples."""

    @property
    def days(self) -> float:
        return max(0.0, self.last - self.first) / DAY if self.first != NEVER else 0.0

    @property
    def confidence(self) -> str:
        """The confidence in the evidence, from the length and completeness of the observation."""
        if not self.size.target:
            return "none"
        whole = self.days * min(1.0, self.coverage if self.source == PROMETHEUS else 1.0)
        return "high" if whole >= 6.0 else "medium" if whole >= 1.5 else "low"


Known = dict[tuple[Key, str], Evidence]
"""By workload and container."""


@dataclass(slots=True)
class Remarks:
    """Remarks on the completeness of the usage data: messages, and whether something is missing."""

    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Why results are partial; empty for complete ones."""
