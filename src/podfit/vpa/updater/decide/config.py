"""The updater's parameters, named as its flags, and its feature gates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from podfit.vpa.model.objects.policy import update_mode


@dataclass(frozen=True, slots=True)
class UpdateConfig:
    min_replicas: int = 2
    eviction_tolerance: float = 0.5
    in_place_skip_disruption_budget: bool = False
    pod_update_threshold: float = 0.1
    in_recommendation_bounds_eviction_lifetime_threshold_s: float = 12 * 3600
    evict_after_oom_threshold_s: float = 600
    deferred_timeout_s: float = 5 * 60
    in_progress_timeout_s: float = 3600
    timeouts_per_attempt: bool = False
    """Measure a resize's timeout from its own start. Upstream measures from the first resize ever seen for the pod's
    name, so that a second deferral, or a pod with the same name, is evicted at once."""
    gates: dict[str, bool] = field(default_factory=dict)

    def gate(self, name: str) -> bool:
        return bool(self.gates.get(name))

    def in_place_allowed(self, vpa: Any) -> bool:
        """Whether the feature gates allow the autoscaler's mode. Only mode InPlace needs a gate here."""
        return update_mode(vpa) != "InPlace" or self.gate("InPlace")
