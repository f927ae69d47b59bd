"""The admission webhook's metrics, under upstream's names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from podfit.kit.clock import Clock
from podfit.kit.series import Counter, Histogram
from podfit.vpa.serve.measures import ResourceReads, StepTimer

P = "vpa_admission_controller"
_STEPS = ("total", "read_request", "admit", "build_response", "write_response")
_LATENCIES = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0),
    *(120.0, 300.0),
)
"""Upstream's buckets and three smaller ones, because most responses take less than upstream's first bucket."""


class AdmissionMeasures:
    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self.steps = StepTimer(registry, P, clock, _STEPS)
        registry.register(ResourceReads())
        pods = Counter(f"{P}_admission_pods", "Number of Pods processed.", ("applied",), registry=registry)
        self.pods = pods.with_values(applied=("true", "false"))
        self.latency = Histogram(
            f"{P}_admission_latency_seconds",
            "Time spent handling admission requests.",
            ("status", "resource"),
            buckets=_LATENCIES,
            registry=registry,
        ).with_values(status=("applied", "skipped", "error"), resource=("Pod", "VPA", "unknown"))

    def answered(self, outcome: str, resource: str, seconds: float) -> None:
        """Counts one request for a kind of object, by its outcome."""
        self.latency.labels(outcome, resource).observe(seconds)
        if resource == "Pod" and outcome != "error":
            self.pods.labels("true" if outcome == "applied" else "false").inc()
