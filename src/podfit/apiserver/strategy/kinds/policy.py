"""Strategies of PodDisruptionBudgets and HorizontalPodAutoscalers."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from podfit.api.quantity import Quantity
from podfit.api.status import field_forbidden, invalid, not_supported, required
from podfit.apiserver.strategy import names
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import NOT_NEGATIVE, label_selector, names_valid
from podfit.apiserver.strategy.kinds.workloads import at_most_all, int_or_percent, set_default

Object = dict[str, Any]

_EVICTION = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


class PodDisruptionBudgetStrategy(Strategy):
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


_PERCENT: Object = {"type": "Percent", "value": 100, "periodSeconds": 15}
_RULES: dict[str, Object] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _PERCENT],
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [_PERCENT]},
}


class AutoscalerStrategy(Strategy):
    has_generation = False

    def reset_status(self, obj: Object) -> None:
        modern = self.kind.version == "v2"
        obj["status"] = {"desiredReplicas": 0, **({"currentMetrics": None} if modern else {"currentReplicas": 0})}

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        set_default(spec, "minReplicas", 1)
        if self.kind.version == "v2" and not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": 80}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
        if spec.get("behavior") is not None:
            # Who says anything of it gets all of it said.
            for word, rules in _RULES.items():
                given = spec["behavior"].get(word) or {}
                spec["behavior"][word] = {**deepcopy(rules), **{key: v for key, v in given.items() if v is not None}}

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
        if least is not None and least < 1:
            errors.append(invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
        if most < 1:
            errors.append(invalid("spec.maxReplicas", most, "must be greater than 0"))
        if least is not None and most < least:
            detail = "must be greater than or equal to `minReplicas`"
            errors.append(invalid("spec.maxReplicas", most, detail))
        self._target(spec.get("scaleTargetRef") or {}, errors)
        for at, metric in enumerate(spec.get("metrics") or ()):
            _metric(metric, f"spec.metrics[{at}]", errors)
        return errors

    def _target(self, target: Object, errors: Errors) -> None:
        for field in ("kind", "name"):
            value = target.get(field, "")
            if not value:
                errors.append(required(f"spec.scaleTargetRef.{field}"))
            else:
                names_valid(value, f"spec.scaleTargetRef.{field}", names.path_segment(value), errors)


def _metric(metric: Object, path: str, errors: Errors) -> None:
    kind = metric.get("type", "")
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric source type"))
        return
    if kind not in _SOURCES:
        errors.append(not_supported(f"{path}.type", kind, _SOURCES))
        return
    field = kind[0].lower() + kind[1:]
    for other in (word[0].lower() + word[1:] for word in _SOURCES):
        if other != field and metric.get(other) is not None:
            detail = "must populate the given metric source only"
            errors.append(field_forbidden(f"{path}.{other}", detail))
    if metric.get(field) is None:
        errors.append(required(f"{path}.{field}", "must populate information for the given metric source"))
    else:
        _source(kind, metric[field], f"{path}.{field}", errors)


def _source(kind: str, source: Object, path: str, errors: Errors) -> None:
    target = source.get("target") or {}
    by_resource = kind in ("Resource", "ContainerResource")
    if by_resource and not source.get("name"):
        errors.append(required(f"{path}.name", "must specify a resource name"))
    if kind == "ContainerResource" and not source.get("container"):
        errors.append(required(f"{path}.container", "must specify a container name"))
    if not by_resource and not (source.get("metric") or {}).get("name"):
        errors.append(required(f"{path}.metric.name", "must specify a metric name"))
    _metric_target(target, f"{path}.target", errors)
    wanted = _WANTED[kind]
    given = [word for word in wanted if target.get(word) is not None]
    if not given:
        errors.append(required(f"{path}.target.{wanted[0]}", _MISSING[kind]))
    elif len(given) > 1 and by_resource:
        detail = "may not set both a target raw value and a target utilization"
        errors.append(field_forbidden(f"{path}.target.averageValue", detail))


def _metric_target(target: Object, path: str, errors: Errors) -> None:
    kind = target.get("type", "")
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric target type"))
    if kind not in ("Utilization", "Value", "AverageValue"):
        errors.append(invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for field in ("value", "averageValue"):
        if target.get(field) is not None and Quantity.parse(target[field]).nanos <= 0:
            errors.append(invalid(f"{path}.{field}", str(target[field]), "must be positive"))
    if target.get("averageUtilization") is not None and target["averageUtilization"] < 1:
        errors.append(invalid(f"{path}.averageUtilization", target["averageUtilization"], "must be greater than 0"))


_SOURCES = ("ContainerResource", "External", "Object", "Pods", "Resource")
_WANTED = {
    "Resource": ("averageUtilization", "averageValue"),
    "ContainerResource": ("averageUtilization", "averageValue"),
    "Pods": ("averageValue",),
    "Object": ("value", "averageValue"),
    "External": ("value", "averageValue"),
}
_MISSING = {
    "Resource": "must set either a target raw value or a target utilization",
    "ContainerResource": "must set either a target raw value or a target utilization",
    "Pods": "must specify a positive target averageValue",
    "Object": "must set either a target value or averageValue",
    "External": "must set either a target value for metric or a per-pod target",
}


def validate_scale(scale: Object) -> Errors:
    """What the scale endpoint of every workload checks."""
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    return [invalid("spec.replicas", replicas, NOT_NEGATIVE)] if replicas < 0 else []
