"""Metrics shared by all three components."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import TracebackType
from typing import ClassVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from podfit.kit.clock import Clock
from podfit.kit.series import Histogram
from podfit.vpa.model.objects.pods import reads
from podfit.vpa.model.objects.policy import MODES, RESOURCES

BUCKETS = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0),
    *(120.0, 150.0, 240.0, 300.0),
)
FLAGS = ("true", "false")
VALUES: dict[str, tuple[str, ...]] = {
    "update_mode": MODES,
    "vpa_size_log2": tuple(str(power) for power in range(21)),
    "resource": RESOURCES,
    "is_oom": FLAGS,
    "recommendation_missing": FLAGS,
}
"""The values of labels that several metrics share."""
RESOURCE_READS = "vpa_resources_get_resources_count"
BARE_COUNTERS = (
    "vpa_recommender_metric_server_responses",
    "vpa_recommender_prometheus_client_api_requests_count",
    "vpa_quality_usage_sample_missing_recommendation_count",
    RESOURCE_READS,
)
"""Upstream's counters without the suffix `_total`. The library exports them as gauges, because only those keep their
name."""


def exposition(registry: CollectorRegistry) -> bytes:
    """The metrics in Prometheus' text format."""
    text = generate_latest(registry)
    for name in BARE_COUNTERS:
        text = text.replace(f"# TYPE {name} gauge\n".encode(), f"# TYPE {name} counter\n".encode())
    return text


class ResourceReads(Collector):
    """Counts, over the whole process, where containers' resources were read from (spec or status)."""

    label_values: ClassVar[dict[str, tuple[str, ...]]] = {"source": tuple(reads)}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        help = "Count of calls to get the resources of a pod or container."
        family = GaugeMetricFamily(RESOURCE_READS, help, labels=("source",))
        for source, count in reads.items():
            family.add_metric((source,), count)
        yield family


class StepTimer:
    """Measures the duration of each step of a pass, and of the whole pass."""

    def __init__(self, registry: CollectorRegistry, prefix: str, clock: Clock, steps: tuple[str, ...]) -> None:
        self._clock = clock
        self._seconds = Histogram(
            f"{prefix}_execution_latency_seconds",
            "Time spent in various parts of the loop.",
            ("step",),
            buckets=BUCKETS,
            registry=registry,
        ).with_values(step=steps)

    def step(self, name: str) -> TimedStep:
        return TimedStep(self, name)

    def now(self) -> float:
        return self._clock.monotonic()

    def took(self, name: str, seconds: float) -> None:
        self._seconds.labels(name).observe(seconds)


class TimedStep:
    """Measures the duration of its body, whether or not it fails. It is a class because a generator per step would cost
    more than most steps."""

    __slots__ = ("_name", "_started", "_timer")

    def __init__(self, timer: StepTimer, name: str) -> None:
        self._timer, self._name = timer, name

    def __enter__(self) -> None:
        self._started = self._timer.now()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._timer.took(self._name, self._timer.now() - self._started)


def size_class(pods: int) -> str:
    """floor(log2) of a number of pods, at most 20: upstream's label for the size of an autoscaler."""
    return str(min(20, int(math.log2(pods)))) if pods > 0 else "0"
