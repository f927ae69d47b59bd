"""The scheduler's metrics, under kube-scheduler's names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from podfit.kit.series import Counter, Gauge, Histogram
from podfit.scheduler.decide.fit.reasons import PLUGINS
from podfit.scheduler.decide.queue import ACTIVE, BACKOFF, GATED, WAITING

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
QUEUES = (ACTIVE, BACKOFF, WAITING, GATED)
CACHED = ("nodes", "pods", "assumed_pods")
CLUSTER_CHANGED = "ClusterChanged"
_FINE = tuple(0.0001 * 2**power for power in range(18))
_MOST_ATTEMPTS = 16
"""More are reported as this many."""
_ATTEMPTS = tuple(str(number) for number in range(1, _MOST_ATTEMPTS + 1))
_RESULTS = (SCHEDULED, UNSCHEDULABLE, ERROR)
_COARSE = tuple(0.01 * 2**power for power in range(20))


class SchedulerMetrics:
    def __init__(self, profile: str = "default-scheduler") -> None:
        self.registry = registry = CollectorRegistry()
        self.attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Number of attempts to schedule pods, by the result.",
            ["result", "profile"],
            registry=registry,
        ).with_values(result=_RESULTS, profile=(profile,))
        self.duration = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds (scheduling algorithm).",
            ["result", "profile"],
            buckets=_FINE,
            registry=registry,
        ).with_values(result=_RESULTS, profile=(profile,))
        self.pending = Gauge(
            "scheduler_pending_pods", "Number of pending pods, by the queue type.", ["queue"], registry=registry
        ).with_values(queue=QUEUES)
        self.tries = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod.",
            buckets=(1, 2, 4, 8, 16),
            registry=registry,
        )
        self.sli = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Latency from a pod entering the queue to its binding.",
            ["attempts"],
            buckets=_COARSE,
            registry=registry,
        ).may_have(attempts=_ATTEMPTS)
        self.seconds = Histogram(
            "scheduler_pod_scheduling_duration_seconds",
            "The same under its former name.",
            ["attempts"],
            buckets=_COARSE,
            registry=registry,
        ).may_have(attempts=_ATTEMPTS)
        self.incoming = Counter(
            "scheduler_queue_incoming_pods_total",
            "Number of pods added to scheduling queues by event and queue type.",
            ["queue", "event"],
            registry=registry,
        ).with_values(queue=(ACTIVE,), event=(CLUSTER_CHANGED,))
        self.preemptions = Counter(
            "scheduler_preemption_attempts_total", "Total preemption attempts so far.", registry=registry
        )
        self.victims = Histogram(
            "scheduler_preemption_victims",
            "Number of selected preemption victims.",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=registry,
        )
        self.unschedulable = Gauge(
            "scheduler_unschedulable_pods",
            "The number of unschedulable pods broken down by plugin name.",
            ["plugin", "profile"],
            registry=registry,
        ).with_values(plugin=sorted(set(PLUGINS.values())), profile=(profile,))
        self.cache_size = Gauge(
            "scheduler_cache_size", "Number of nodes and pods in the cache.", ["type"], registry=registry
        ).with_values(type=CACHED)
        self.deferred_evictions = Counter(
            "podfit_scheduler_deferred_resize_evictions_total",
            "Pods evicted to make room for deferred resizes.",
            registry=registry,
        )

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def tried(self, result: str, profile: str, seconds: float) -> None:
        """Counts one decision."""
        self.attempts.labels(result, profile).inc()
        self.duration.labels(result, profile).observe(seconds)

    def bound(self, attempts: int, seconds: float) -> None:
        """Counts a bound pod, with the number of attempts and the time it took."""
        self.tries.observe(attempts)
        shown = str(min(attempts, _MOST_ATTEMPTS))
        self.sli.labels(shown).observe(seconds)
        self.seconds.labels(shown).observe(seconds)
