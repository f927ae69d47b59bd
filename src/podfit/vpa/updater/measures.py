"""The updater's metrics, under upstream's names."""

from __future__ import annotations

from typing import TypeVar

from prometheus_client import CollectorRegistry

from podfit.kit.clock import Clock
from podfit.kit.series import Counter, Gauge
from podfit.vpa.serve.measures import VALUES, ResourceReads, StepTimer

P = "vpa_updater"
_SIZED = ("vpa_size_log2",)
_MODED = ("vpa_size_log2", "update_mode")
_STEPS = ("total", "ListVPAs", "ListPods", "FilterPods", "AdmissionInit", "EvictPods")
_NAMED = ("vpa_name", "vpa_namespace")

M = TypeVar("M", Counter, Gauge)


class UpdaterMeasures:
    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        def known(metric: M, labels: tuple[str, ...]) -> M:
            values = {name: VALUES[name] for name in labels if name in VALUES}
            return metric.may_have(**values)

        def gauge(name: str, help: str, labels: tuple[str, ...]) -> Gauge:
            return known(Gauge(f"{P}_{name}", help, labels, registry=registry), labels)

        def counter(name: str, help: str, labels: tuple[str, ...]) -> Counter:
            return known(Counter(f"{P}_{name}", help, labels, registry=registry), labels)

        self.steps = StepTimer(registry, P, clock, _STEPS)
        registry.register(ResourceReads())
        self.controlled = gauge("controlled_pods_total", "Number of Pods controlled by VPA updater.", _MODED)
        self.evictable = gauge("evictable_pods_total", "Number of Pods matching eviction criteria.", _MODED)
        self.vpas_evictable = gauge(
            "vpas_with_evictable_pods_total", "Number of VPA objects with at least one Pod to evict.", _MODED
        )
        self.vpas_evicted = gauge(
            "vpas_with_evicted_pods_total", "Number of VPA objects with at least one evicted Pod.", _MODED
        )
        self.evicted = counter("evicted_pods", "Number of Pods evicted.", (*_MODED, *_NAMED))
        self.failed_evictions = counter(
            "failed_eviction_attempts", "Number of failed attempts to evict Pods.", (*_MODED, *_NAMED, "reason")
        )
        self.resizable = gauge("in_place_updatable_pods_total", "Number of Pods to update in place.", _SIZED)
        self.vpas_resizable = gauge(
            "vpas_with_in_place_updatable_pods_total", "Number of VPA objects with a Pod to update in place.", _SIZED
        )
        self.vpas_resized = gauge(
            "vpas_with_in_place_updated_pods_total", "Number of VPA objects with a Pod updated in place.", _SIZED
        )
        self.resized = counter("in_place_updated_pods", "Number of Pods updated in place.", (*_SIZED, *_NAMED))
        self.failed_resizes = counter(
            "failed_in_place_update_attempts", "Number of failed updates in place.", (*_SIZED, *_NAMED, "reason")
        )
        self.left_alone = gauge("pods_left_alone", "Number of Pods left unchanged, by reason.", ("reason",))
        self.undone = counter("undone_resizes", "Number of resizes undone.", _NAMED)
        self.reflexes = counter(
            "memory_reflexes", "Number of memory limits raised because usage was near them.", _NAMED
        )

    def begin(self) -> None:
        """Resets the gauges, each of which covers one pass."""
        for gauge in (
            self.controlled,
            self.evictable,
            self.vpas_evictable,
            self.vpas_evicted,
            self.resizable,
            self.vpas_resizable,
            self.vpas_resized,
            self.left_alone,
        ):
            gauge.clear()
