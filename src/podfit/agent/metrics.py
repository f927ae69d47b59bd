"""The agent's metrics, under the names of the KEP and, if upstream renamed one, also the kubelet's current name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry

from podfit.agent.cpus.metrics import CpuMetrics
from podfit.agent.decide.resize.allocate import INFEASIBLE_DETAILS
from podfit.api.resize.states import CPU, MEMORY, Allocated, Desired, number
from podfit.kit.series import Counter, Gauge, Histogram

_BUCKETS_MS = (10, 50, 100, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000)
_OPERATION_BUCKETS = tuple(0.005 * 2.5**power for power in range(14))
_WORKER_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_OUTCOMES = ("true", "false")
PENDING_REASONS = ("deferred", "infeasible")
RETRY_TRIGGERS = ("periodic_retry", "pod_resized", "pod_updated", "pods_added", "pods_removed")
CREATE, UPDATE, SYNC, KILL, TERMINATED = "create", "update", "sync", "kill", "terminated"
OPERATIONS = (
    *("run_podsandbox", "stop_podsandbox", "remove_podsandbox", "list_podsandbox"),
    *("create_container", "start_container", "stop_container", "remove_container", "update_container"),
    *("update_podsandbox_resources", "exec_sync", "exec", "attach", "port_forward"),
    *("image_status", "pull_image", "list_images", "remove_image"),
)
"""The kubelet's names for runtime operations, as far as they are used here."""


class AgentMetrics:
    """The metrics, in a registry of one agent or in one that many agents of a process share."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.requested = Counter(
            "kubelet_container_requested_resizes_total",
            "Number of requested resizes, counted at the container level.",
            ["resource", "requirement", "operation"],
            registry=self.registry,
        ).with_values(
            resource=(CPU, MEMORY),
            requirement=("requests", "limits"),
            operation=("add", "remove", "increase", "decrease"),
        )
        self.duration_ms = Histogram(
            "kubelet_pod_resize_duration_milliseconds",
            "Duration in milliseconds to actuate a pod resize",
            ["success"],
            buckets=_BUCKETS_MS,
            registry=self.registry,
        ).with_values(success=_OUTCOMES)
        self.duration_s = Histogram(
            "kubelet_pod_resize_duration_seconds",
            "Duration in seconds to actuate a pod resize",
            ["success"],
            buckets=tuple(bucket / 1000 for bucket in _BUCKETS_MS),
            registry=self.registry,
        ).with_values(success=_OUTCOMES)
        self.infeasible = Counter(
            "kubelet_pod_infeasible_resizes_total",
            "Number of infeasible resizes for pods.",
            ["reason_detail"],
            registry=self.registry,
        ).with_values(reason_detail=INFEASIBLE_DETAILS)
        self.pending = Gauge(
            "kubelet_pod_pending_resizes", "Number of pending resizes for pods.", ["reason"], registry=self.registry
        ).with_values(reason=PENDING_REASONS)
        self.in_progress = Gauge(
            "kubelet_pod_in_progress_resizes", "Number of in-progress resizes for pods.", registry=self.registry
        )
        self.deferred_accepted = Counter(
            "kubelet_pod_deferred_accepted_resizes_total",
            "Cumulative number of resizes that were accepted after being deferred.",
            ["retry_trigger"],
            registry=self.registry,
        ).with_values(retry_trigger=RETRY_TRIGGERS)
        self.deferred_accepted_seed = Counter(
            "kubelet_pod_deferred_resize_accepted_total",
            "Cumulative number of resizes that were accepted after being deferred.",
            ["retry_trigger"],
            registry=self.registry,
        ).with_values(retry_trigger=RETRY_TRIGGERS)
        self.cpus = CpuMetrics(self.registry)
        self._operations()

    def _operations(self) -> None:
        self.operations = Counter(
            "kubelet_runtime_operations_total",
            "Cumulative number of runtime operations by operation type.",
            ["operation_type"],
            registry=self.registry,
        ).with_values(operation_type=OPERATIONS)
        self.operation_errors = Counter(
            "kubelet_runtime_operations_errors_total",
            "Cumulative number of runtime operation errors by operation type.",
            ["operation_type"],
            registry=self.registry,
        ).with_values(operation_type=OPERATIONS)
        self.operation_seconds = Histogram(
            "kubelet_runtime_operations_duration_seconds",
            "Duration in seconds of runtime operations. Broken down by operation type.",
            ["operation_type"],
            buckets=_OPERATION_BUCKETS,
            registry=self.registry,
        ).with_values(operation_type=OPERATIONS)
        self.worker_seconds = Histogram(
            "kubelet_pod_worker_duration_seconds",
            "Duration in seconds to sync a single pod. Broken down by operation type.",
            ["operation_type"],
            buckets=_WORKER_BUCKETS,
            registry=self.registry,
        ).with_values(operation_type=(CREATE, UPDATE, SYNC, KILL, TERMINATED))

    def accepted_after_waiting(self, trigger: str) -> None:
        self.deferred_accepted.labels(trigger).inc()
        self.deferred_accepted_seed.labels(trigger).inc()

    def actuated(self, seconds: float, success: bool) -> None:
        label = "true" if success else "false"
        self.duration_ms.labels(label).observe(seconds * 1000)
        self.duration_s.labels(label).observe(seconds)

    def pending_changed(self, before: str, after: str) -> None:
        """`before` and `after` are a pod's pending reason, "" for none."""
        if before:
            self.pending.labels(before.lower()).dec()
        if after:
            self.pending.labels(after.lower()).inc()

    def resize_requested(self, before: Desired | Allocated, after: Desired) -> None:
        for name, resources in after.containers.items():
            earlier = before.containers.get(name) or {}
            if resources is earlier:
                continue
            for resource in (CPU, MEMORY):
                for requirement in ("requests", "limits"):
                    old, new = earlier.get(requirement) or {}, resources.get(requirement) or {}
                    # Most texts are equal; only those that differ are parsed.
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
