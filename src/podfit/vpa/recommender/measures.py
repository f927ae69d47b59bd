"""The recommender's metrics: those of upstream, and gauges of the recommendations themselves, which upstream lacks."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any, ClassVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from podfit.api.quantity import Quantity
from podfit.kit.clock import Clock
from podfit.kit.series import Counter, Gauge, Histogram
from podfit.vpa.model.objects.policy import MODES, RESOURCES, update_mode
from podfit.vpa.policies.quality import Quality as Judged
from podfit.vpa.policies.quality import total_of
from podfit.vpa.policies.table import POLICIES
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, VpaId
from podfit.vpa.recommender.quality import QualityMeasures
from podfit.vpa.serve.measures import BUCKETS, FLAGS, ResourceReads, StepTimer

P = "vpa_recommender"
FIRST_SIZE_BUCKETS = (
    *(1.0, 2.0, 5.0, 7.5, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 90.0, 120.0, 150.0, 180.0, 240.0, 300.0, 600.0),
    *(900.0, 1800.0),
)
_STEPS = ("total", "LoadVPAs", "LoadPods", "LoadMetrics", "UpdateVPAs", "MaintainCheckpoints", "GarbageCollect")
METRICS_CLIENT = "default-metrics-client"
_POLICY_GAUGES: tuple[tuple[str, str, Callable[[Judged], float]], ...] = (
    (
        "slack_ratio",
        "The fraction of the capacity that the policy would have left idle.",
        lambda quality: quality.slack,
    ),
    ("short_samples_ratio", "The fraction of samples above the policy's size.", lambda quality: quality.short),
    (
        "short_days_ratio",
        "Days with a sample above the policy's size; of memory, OOM-days.",
        lambda quality: quality.days_short,
    ),
    (
        "resizes_per_day",
        "How often the policy would have changed a size by more than 5 %.",
        lambda quality: quality.changes_a_day,
    ),
)
_SIZES = {"target": "target", "lowerBound": "lower_bound", "upperBound": "upper_bound", "uncappedTarget": "uncapped"}


class RecommenderMeasures:
    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self.steps = StepTimer(registry, P, clock, _STEPS)
        self.quality = QualityMeasures(registry)
        registry.register(ResourceReads())
        self._objects = Gauge(
            f"{P}_vpa_objects_count",
            "Number of VPA objects present in the cluster.",
            ("update_mode", "has_recommendation", "api", "matches_pods", "unsupported_config"),
            registry=registry,
        ).with_values(
            update_mode=MODES, has_recommendation=FLAGS, api=("v1",), matches_pods=FLAGS, unsupported_config=FLAGS
        )
        self.latency = Histogram(
            f"{P}_recommendation_latency_seconds",
            "Time elapsed from creating a valid VPA configuration to the first recommendation.",
            buckets=FIRST_SIZE_BUCKETS,
            registry=registry,
        )
        self.aggregates = Gauge(
            f"{P}_aggregate_container_states_count", "Number of aggregate container states.", registry=registry
        )
        self.usage_answers = Gauge(
            f"{P}_metric_server_responses",
            "Count of responses to queries to metrics server.",
            ("is_error", "client_name"),
            registry=registry,
        ).with_values(is_error=FLAGS, client_name=(METRICS_CLIENT,))
        self._requests = Gauge(
            f"{P}_prometheus_client_api_requests_count",
            "Number of requests to Prometheus.",
            ("code", "method"),
            registry=registry,
        ).may_have(method=("post",))
        self._answered = Histogram(
            f"{P}_prometheus_client_api_requests_duration_seconds",
            "Duration of requests to Prometheus.",
            ("code", "method"),
            buckets=BUCKETS,
            registry=registry,
        ).may_have(method=("post",))
        self.samples = Counter(f"{P}_samples", "Samples of CPU use that were counted.", registry=registry)
        ooms = Counter(f"{P}_oom_events", "Out-of-memory events.", ("outcome",), registry=registry)
        self.ooms = ooms.with_values(outcome=("counted", "refused", "unknown"))
        writes = Counter(f"{P}_writes", "Writes to the API server.", ("what", "outcome"), registry=registry)
        self.writes = writes.with_values(what=("status", "checkpoint"), outcome=("ok", "failed"))

    def prometheus_asked(self, code: str, method: str, seconds: float) -> None:
        self._requests.labels(code, method).inc()
        self._answered.labels(code, method).observe(seconds)

    def usage_answered(self, failed: bool) -> None:
        self.usage_answers.labels(str(failed).lower(), METRICS_CLIENT).inc()

    def objects(self, cluster: ClusterState, recommended: Mapping[VpaId, Mapping[str, Any]]) -> None:
        counts: Count[tuple[str, ...]] = Count()
        for vpa in cluster.vpas.values():
            provided = bool(recommended.get(vpa.id, {}).get("containerRecommendations"))
            flags = (_flag(provided), "v1", _flag(bool(vpa.pods)), _flag(vpa.unsupported is not None))
            counts[(update_mode(vpa.object), *flags)] += 1
        for mode, provided_, matches, unsupported in product(MODES, FLAGS, FLAGS, FLAGS):
            key = (mode, provided_, "v1", matches, unsupported)
            self._objects.labels(*key).set(counts.get(key, 0))


class Recommendations(Collector):
    """Gauges of all recommendations. They are computed when scraped, so a pass over ten thousand autoscalers costs
    nothing extra."""

    label_values: ClassVar[dict[str, tuple[str, ...]]] = {"resource": RESOURCES, "bound": tuple(_SIZES.values())}

    def __init__(self, current: Callable[[], Iterable[tuple[VpaId, Mapping[str, Any]]]]) -> None:
        self._current = current

    def collect(self) -> Iterator[GaugeMetricFamily]:
        sizes = GaugeMetricFamily(
            f"{P}_recommendation",
            "The recommendation, in cores and bytes.",
            labels=("namespace", "vpa", "container", "resource", "bound"),
        )
        for id, recommendation in self._current():
            for entry in recommendation.get("containerRecommendations") or ():
                for field, bound in _SIZES.items():
                    for resource, amount in (entry.get(field) or {}).items():
                        labels = (*id, entry["containerName"], resource, bound)
                        sizes.add_metric(labels, Quantity.parse(amount).nanos / 1e9)
        yield sizes


class PolicyQuality(Collector):
    """Gauges of the quality of policies over the last days, for all containers together. They are computed when
    scraped."""

    label_values: ClassVar[dict[str, tuple[str, ...]]] = {"policy": tuple(POLICIES), "resource": RESOURCES}

    def __init__(self, current: Callable[[], Mapping[tuple[str, str], list[Judged]]]) -> None:
        self._current = current

    def collect(self) -> Iterator[GaugeMetricFamily]:
        found = {key: total_of(each) for key, each in self._current().items() if each}
        for name, help, value in _POLICY_GAUGES:
            family = GaugeMetricFamily(f"{P}_policy_{name}", help, labels=("policy", "resource"))
            for labels, quality in found.items():
                if quality.scored:
                    family.add_metric(labels, value(quality))
            yield family


def _flag(value: bool) -> str:
    return "true" if value else "false"
