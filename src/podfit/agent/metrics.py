"""What the agent counts: names of the KEP and, where upstream renamed one, also the kubelet's of today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry

from podfit.agent.decide.states import CPU, MEMORY, Allocated, Desired, number
from podfit.kit.series import Counter, Gauge, Histogram

_BUCKETS_MS = (10, 50, 100, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000)


class AgentMetrics:
    """One registry an agent, or one shared by many agents of a process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.requested = Counter(
            "kubelet_container_requested_resizes_total",
            "Number of requested resizes, counted at the container level.",
            ["resource", "requirement", "operation"],
            registry=self.registry,
        )
        self.duration_ms = Histogram(
            "kubelet_pod_resize_duration_milliseconds",
            "Duration in milliseconds to actuate a pod resize",
            ["success"],
            buckets=_BUCKETS_MS,
            registry=self.registry,
        )
        self.duration_s = Histogram(
            "kubelet_pod_resize_duration_seconds",
            "Duration in seconds to actuate a pod resize",
            ["success"],
            buckets=tuple(bucket / 1000 for bucket in _BUCKETS_MS),
            registry=self.registry,
        )
        self.infeasible = Counter(
            "kubelet_pod_infeasible_resizes_total",
            "Number of infeasible resizes for pods.",
            ["reason_detail"],
            registry=self.registry,
        )
        self.pending = Gauge(
            "kubelet_pod_pending_resizes", "Number of pending resizes for pods.", ["reason"], registry=self.registry
        )
        self.in_progress = Gauge(
            "kubelet_pod_in_progress_resizes", "Number of in-progress resizes for pods.", registry=self.registry
        )
        self.deferred_accepted = Counter(
            "kubelet_pod_deferred_accepted_resizes_total",
            "Cumulative number of resizes that were accepted after being deferred.",
            ["retry_trigger"],
            registry=self.registry,
        )
        self.deferred_accepted_seed = Counter(
            "kubelet_pod_deferred_resize_accepted_total",
            "Cumulative number of resizes that were accepted after being deferred.",
            ["retry_trigger"],
            registry=self.registry,
        )
        self._pending: dict[str, int] = {"deferred": 0, "infeasible": 0}

    def accepted_after_waiting(self, trigger: str) -> None:
        self.deferred_accepted.labels(trigger).inc()
        self.deferred_accepted_seed.labels(trigger).inc()

    def actuated(self, seconds: float, success: bool) -> None:
        label = "true" if success else "false"
        self.duration_ms.labels(label).observe(seconds * 1000)
        self.duration_s.labels(label).observe(seconds)

    def pending_changed(self, before: str, after: str) -> None:
        """`before` and `after` are a pod's pending reason, "" for none. A series without pods disappears."""
        for reason, step in ((before.lower(), -1), (after.lower(), 1)):
            if not reason:
                continue
            self._pending[reason] = max(0, self._pending.get(reason, 0) + step)
            if self._pending[reason]:
                self.pending.labels(reason).set(self._pending[reason])
            else:
                _drop(self.pending, reason)

    def resize_requested(self, before: Desired | Allocated, after: Desired) -> None:
        for name, resources in after.containers.items():
            earlier = before.containers.get(name) or {}
            if resources is earlier:
                continue
            for resource in (CPU, MEMORY):
                for requirement in ("requests", "limits"):
                    old, new = earlier.get(requirement) or {}, resources.get(requirement) or {}
                    # Most texts are the same: only others are read as numbers.
                    if old.get(resource) != new.get(resource) and (operation := _operation(old, new, resource)):
                        self.requested.labels(resource, requirement, operation).inc()


def _operation(before: Mapping[str, Any], after: Mapping[str, Any], resource: str) -> str:
    old, new = number(before.get(resource) or 0, resource), number(after.get(resource) or 0, resource)
    if old == new:
        return ""
    if not old:
        return "add"
    if not new:
        return "remove"
    return "increase" if new > old else "decrease"


def _drop(gauge: Gauge, label: str) -> None:
    try:
        gauge.remove(label)
    except KeyError:
        pass
