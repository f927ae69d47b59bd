"""The strategy of PodDisruptionBudgets."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.status import invalid, not_supported
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import NOT_NEGATIVE, label_selector
from podfit.apiserver.strategy.kinds.replicas.workloads import at_most_all, int_or_percent

_EVICTION = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


class PodDisruptionBudgetStrategy(Strategy):
    update_checks = status_checks = ""
    unconditional_update = False
    counters = _COUNTS

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if least is not None and most is not None:
            shown = {
                "MinAvailable": least,
                "Selector": spec.get("selector"),
                "MaxUnavailable": most,
                "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
            }
            errors.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
        for field, value in (("minAvailable", least), ("maxUnavailable", most)):
            if value is not None:
                int_or_percent(value, f"spec.{field}", errors)
                at_most_all(value, f"spec.{field}", errors)
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in _EVICTION:
            errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION))
        label_selector(spec.get("selector"), "spec.selector", errors)
        return errors

    def validate_status(self, new: Object, old: Object) -> Errors:
        status = new.get("status") or {}
        negative = (field for field in _COUNTS if (status.get(field) or 0) < 0)
        return [invalid(f"status.{field}", status[field], NOT_NEGATIVE) for field in negative]
