"""The admission webhook's metrics, under upstream's names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from podfit.kit.clock import Clock
from podfit.vpa.serve.measures import ResourceReads, StepTimer

P = "vpa_admission_controller"
_LATENCIES = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0),
    *(120.0, 300.0),
)
"""Upstream's, and three below: here most answers take less than its first."""


class Measures:
    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self.steps = StepTimer(registry, P, clock)
        registry.register(ResourceReads())
        self.pods = Counter(f"{P}_admission_pods", "Number of Pods processed.", ("applied",), registry=registry)
        self.latency = Histogram(
            f"{P}_admission_latency_seconds",
            "Time spent handling admission requests.",
            ("status", "resource"),
            buckets=_LATENCIES,
            registry=registry,
        )
        self._latencies: dict[tuple[str, str], Histogram] = {}
        self._pods: dict[bool, Counter] = {}

    def answered(self, outcome: str, resource: str, seconds: float) -> None:
        """One request of a kind of object, and what became of it. Series are looked up once: they never go away."""
        latency = self._latencies.get((outcome, resource))
        if latency is None:
            latency = self._latencies[outcome, resource] = self.latency.labels(outcome, resource)
        latency.observe(seconds)
        if resource == "Pod":
            applied = outcome == "applied"
            pods = self._pods.get(applied)
            if pods is None:
                pods = self._pods[applied] = self.pods.labels(str(applied).lower())
            pods.inc()
