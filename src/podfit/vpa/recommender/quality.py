"""The quality of recommendations: every sample is compared with the recommendation at its time.

These are upstream's `vpa_quality_*` metrics. A sample is compared with the uncapped target of its aggregate after the
last pass; usage without one counts as missing. Whole scrapes are compared at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from podfit.api.quantity import Quantity
from podfit.kit.series import Gauge
from podfit.vpa.model.objects.policy import MODES
from podfit.vpa.recommender.decide.fleet.fleet import NO_ROW, Fleet
from podfit.vpa.recommender.decide.fleet.rows import RowAggregate
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, Vpa
from podfit.vpa.recommender.intake.usage import Scraped
from podfit.vpa.serve.measures import VALUES, size_class
from podfit.vpa.serve.tally import CountedMetric

P = "vpa_quality"
CPU_BUCKETS = tuple(0.01 * 2**power for power in range(17))
MEMORY_BUCKETS = tuple(1e6 * 2**power for power in range(17))
_NEAR = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
RELATIVE_BUCKETS = (*(-part for part in reversed(_NEAR)), 0.0, *_NEAR, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0)
_VALUES = {**VALUES, "update_mode": ("", *MODES)}
"""The mode in the object, which may be absent."""
NOBODY = -1
"""The mode of a row that no autoscaler uses, or whose container is switched off."""

Floats = NDArray[np.float64]
Targets = dict[str, tuple[float, float]]
"""Cores and bytes by container; 0 without a recommendation."""

_NOTHING: tuple[Mapping[str, Any], Targets] = {}, {}


class QualityMeasures:
    def __init__(self, registry: CollectorRegistry) -> None:
        def tally(name: str, help: str, labels: tuple[str, ...], buckets: Iterable[float]) -> CountedMetric:
            return CountedMetric(registry, f"{P}_{name}", help, {label: _VALUES[label] for label in labels}, buckets)

        sampled, missing = ("update_mode", "resource", "is_oom"), ("update_mode", "recommendation_missing")
        self.relative = tally(
            "usage_recommendation_relative_diffs",
            "Differences between usage and recommendation, relative to the recommendation.",
            sampled,
            RELATIVE_BUCKETS,
        )
        self.missing = Gauge(
            f"{P}_usage_sample_missing_recommendation_count",
            "Count of usage samples without a recommendation where there should be one.",
            sampled,
            registry=registry,
        ).may_have(**{label: _VALUES[label] for label in sampled})
        over, under = "CPU recommended beyond the usage.", "CPU used beyond the recommendation."
        self.cpu_over = tally("cpu_recommendation_over_usage_diffs_cores", over, missing, CPU_BUCKETS)
        self.cpu_under = tally("cpu_recommendation_lower_equal_usage_diffs_cores", under, missing, CPU_BUCKETS)
        over, under, labels = over.replace("CPU", "Memory"), under.replace("CPU", "Memory"), (*missing, "is_oom")
        self.memory_over = tally("mem_recommendation_over_usage_diffs_bytes", over, labels, MEMORY_BUCKETS)
        self.memory_under = tally("mem_recommendation_lower_equal_usage_diffs_bytes", under, labels, MEMORY_BUCKETS)
        self.cpu = tally(
            "cpu_recommendations_cores", "CPU recommended when a sample was taken.", ("update_mode",), CPU_BUCKETS
        )
        self.memory = tally(
            "mem_recommendations_bytes",
            "Memory recommended when a sample was taken.",
            ("update_mode", "is_oom"),
            MEMORY_BUCKETS,
        )
        self.changes = tally(
            "relative_recommendation_changes",
            "Changes between consecutive recommendations, relative to the older one.",
            ("update_mode", "resource", "vpa_size_log2"),
            RELATIVE_BUCKETS,
        )
        self._modes: list[str] = []
        self._mode: NDArray[np.int16] = np.zeros(0, np.int16)
        self._target: Floats = np.zeros((2, 0))
        self._last: dict[Any, tuple[Mapping[str, Any], Targets]] = {}

    # --- recommendations

    def recommended(self, cluster: ClusterState, found: Mapping[Any, Mapping[str, Any]]) -> None:
        """Records the recommendations after a pass, by autoscaler, and their difference from the previous ones."""
        fleet = cluster.fleet
        assert fleet is not None
        rows = len(fleet.first)
        self._mode, self._target = np.full(rows, NOBODY, np.int16), np.zeros((2, rows))
        last, self._last = self._last, {}
        changes: dict[tuple[str, str, str], list[float]] = {}
        for id, vpa in cluster.vpas.items():
            standing = found.get(id) or {}
            seen, before = last.get(id, _NOTHING)
            # An unchanged recommendation is the same object, which need not be parsed again.
            targets = before if standing is seen else _targets(standing)
            self._last[id] = standing, targets
            mode = _mode_of(vpa)
            number, size = self._number(mode), size_class(len(vpa.pods))
            for key, state in vpa.aggregates.items():
                if not isinstance(state, RowAggregate) or state.scaling_off:
                    continue
                now = targets.get(key.container, (0.0, 0.0))
                self._mode[state.row] = number
                self._target[0, state.row], self._target[1, state.row] = now
                for resource, old, new in zip(("cpu", "memory"), before.get(key.container, ()), now, strict=False):
                    if old > 0 and new > 0:
                        changes.setdefault((mode, resource, size), []).append(new / old - 1.0)
        for labels, values in changes.items():
            self.changes.observe(labels, values)

    def _number(self, mode: str) -> int:
        if mode not in self._modes:
            self._modes.append(mode)
        return self._modes.index(mode)

    # --- usage

    def scraped(self, found: Scraped, fleet: Fleet) -> None:
        """Compares samples before they are ingested: only those that will be accepted."""
        if not len(found.handles) or not len(self._mode):
            return
        handles, instants, cpu, memory = found.handles, found.instants, found.cpu, found.memory
        rows = fleet.row[handles]
        known = (rows != NO_ROW) & (rows < len(self._mode))
        new_cpu, new_memory = (instants > fleet.last_cpu[handles]), (instants >= fleet.last_memory[handles])
        self._compare("cpu", rows[use := known & (cpu >= 0) & new_cpu], cpu[use] / 1000.0, False)
        self._compare("memory", rows[use := known & (memory >= 0) & new_memory], memory[use].astype(np.float64), False)

    def ran_out(self, state: Any, needed: int) -> None:
        """Compares an out-of-memory kill that counts as this many bytes."""
        if isinstance(state, RowAggregate) and state.row < len(self._mode):
            self._compare("memory", np.array([state.row]), np.array([float(needed)]), True)

    def _compare(self, resource: str, rows: NDArray[np.int64], usage: Floats, oom: bool) -> None:
        targets, modes = self._target[int(resource == "memory")][rows], self._mode[rows]
        for number, mode in enumerate(self._modes):
            chosen = modes == number
            if chosen.any():
                self._observe(mode, resource, usage[chosen], targets[chosen], oom)

    def _observe(self, mode: str, resource: str, usage: Floats, targets: Floats, oom: bool) -> None:
        is_oom = str(oom).lower()
        more = (is_oom,) if resource == "memory" else ()
        known = targets > 0
        recommendations = self.cpu if resource == "cpu" else self.memory
        recommendations.observe((mode, *more), targets[known])
        over, under = (self.cpu_over, self.cpu_under) if resource == "cpu" else (self.memory_over, self.memory_under)
        for missing, chosen in (("false", known), ("true", ~known)):
            gap = targets[chosen] - usage[chosen]
            over.observe((mode, missing, *more), gap[gap > 0])
            under.observe((mode, missing, *more), -gap[gap <= 0])
        self.relative.observe((mode, resource, is_oom), (usage[known] - targets[known]) / targets[known])
        if absent := int((~known).sum()):
            self.missing.labels(mode, resource, is_oom).inc(absent)


def _mode_of(vpa: Vpa) -> str:
    """The update mode in the object; empty if absent."""
    return str(((vpa.object.get("spec") or {}).get("updatePolicy") or {}).get("updateMode") or "")


def _targets(recommendation: Mapping[str, Any]) -> Targets:
    found: Targets = {}
    for entry in recommendation.get("containerRecommendations") or ():
        sizes = entry.get("uncappedTarget") or {}
        cpu, memory = (Quantity.parse(sizes.get(name) or "0") for name in ("cpu", "memory"))
        found[entry["containerName"]] = cpu.milli / 1000.0, float(memory.value)
    return found
