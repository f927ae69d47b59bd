"""The strategy of HorizontalPodAutoscalers, of both versions."""

from __future__ import annotations

from copy import deepcopy

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.status import field_forbidden, invalid, not_supported, required
from podfit.api.text import names
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import NOT_NEGATIVE, names_valid
from podfit.apiserver.strategy.kinds.replicas.workloads import set_default
from podfit.apiserver.strategy.resourcelists import container_resource_name

_LONGEST_WINDOW_S = 3600
_LONGEST_PERIOD_S = 1800
_SELECTIONS = ("Disabled", "Max", "Min")
_POLICIES = ("Percent", "Pods")
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
    update_checks = "c"
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
            # If any field of the behavior is set, all of them get defaults.
            for word, rules in _RULES.items():
                given = spec["behavior"].get(word) or {}
                spec["behavior"][word] = {**deepcopy(rules), **{key: v for key, v in given.items() if v is not None}}

    def validate(self, obj: Object) -> Errors:
        return self._spec(obj.get("spec") or {}, True)

    def validate_update(self, new: Object, old: Object, subresource: str = "") -> Errors:
        errors = self.validate_update_meta(new, old, subresource)
        if subresource == "status":
            return errors + self.validate_status(new, old)
        spec, before = new.get("spec") or {}, (old.get("spec") or {}).get("scaleTargetRef") or {}
        target = spec.get("scaleTargetRef") or {}
        other = any(target.get(field) != before.get(field) for field in ("kind", "apiVersion"))
        return errors + self._spec(spec, other, any_version=_odd_objects(old.get("spec") or {}))

    def _spec(self, spec: Object, other_target: bool, *, any_version: bool = False) -> Errors:
        """Validates the spec. A target's group that was accepted once is not checked again; with `any_version`, the
        versions of objects with metrics are not checked."""
        errors: Errors = []
        least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
        if least is not None and least < 1:
            errors.append(invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
        if most == 0:
            errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
        elif most < 0:
            errors.append(invalid("spec.maxReplicas", most, "must be greater than or equal to 1"))
        if least is not None and most < least:
            detail = "must be greater than or equal to `minReplicas`"
            errors.append(invalid("spec.maxReplicas", most, detail))
        target = spec.get("scaleTargetRef") or {}
        _reference(target, "spec.scaleTargetRef", errors)
        if other_target:
            _version(target, "spec.scaleTargetRef", errors)
        _metrics(spec, errors, any_version=any_version)
        for word in _RULES:
            rules = (spec.get("behavior") or {}).get(word)
            if rules is not None:
                _rules(rules, f"spec.behavior.{word}", errors)
        return errors

    def validate_status(self, new: Object, old: Object) -> Errors:
        status = new.get("status") or {}
        negative = (field for field in ("currentReplicas", "desiredReplicas") if (status.get(field) or 0) < 0)
        return [invalid(f"status.{field}", status[field], NOT_NEGATIVE) for field in negative]


def _reference(target: Object, path: str, errors: Errors) -> None:
    for field in ("kind", "name"):
        value = target.get(field, "")
        if not value:
            errors.append(required(f"{path}.{field}"))
        else:
            names_valid(value, f"{path}.{field}", names.path_segment(value), errors)


def _version(target: Object, path: str, errors: Errors) -> None:
    """Validates the apiVersion of a target: all scalable kinds have a group, except ReplicationControllers."""
    version = target.get("apiVersion") or ""
    if _well_formed(target, path, errors) and "/" not in version and target.get("kind") != "ReplicationController":
        errors.append(invalid(f"{path}.apiVersion", version, "apiVersion must specify API group"))


def _well_formed(target: Object, path: str, errors: Errors) -> bool:
    version = target.get("apiVersion") or ""
    if version.count("/") > 1:
        errors.append(invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    return version.count("/") <= 1


def _rules(rules: Object, path: str, errors: Errors) -> None:
    window, selection = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy")
    if window is not None and window < 0:
        errors.append(invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"))
    if window is not None and window > _LONGEST_WINDOW_S:
        detail = f"must be less than or equal to {_LONGEST_WINDOW_S}"
        errors.append(invalid(f"{path}.stabilizationWindowSeconds", window, detail))
    if selection is not None and selection not in _SELECTIONS:
        errors.append(not_supported(f"{path}.selectPolicy", selection, _SELECTIONS))
    if not rules.get("policies"):
        errors.append(required(f"{path}.policies", "must specify at least one Policy"))
    for at, policy in enumerate(rules.get("policies") or ()):
        _policy(policy, f"{path}.policies[{at}]", errors)
    tolerance = rules.get("tolerance")
    if tolerance is not None and Quantity.parse(tolerance).nanos < 0:
        errors.append(invalid(f"{path}.tolerance", str(tolerance), NOT_NEGATIVE))


def _policy(policy: Object, path: str, errors: Errors) -> None:
    kind, period = policy.get("type", ""), policy.get("periodSeconds", 0)
    if kind not in _POLICIES:
        errors.append(not_supported(f"{path}.type", kind, _POLICIES))
    for field in ("value", "periodSeconds"):
        if policy.get(field, 0) <= 0:
            errors.append(invalid(f"{path}.{field}", policy.get(field, 0), "must be greater than zero"))
    if period > _LONGEST_PERIOD_S:
        errors.append(invalid(f"{path}.periodSeconds", period, f"must be less than or equal to {_LONGEST_PERIOD_S}"))


def _odd_objects(spec: Object) -> bool:
    """Whether a stored metric of an object has an invalid version, so that others may have one too."""
    described = ((metric.get("object") or {}).get("describedObject") or {} for metric in spec.get("metrics") or ())
    return any((each.get("apiVersion") or "").count("/") > 1 for each in described)


def _metrics(spec: Object, errors: Errors, *, any_version: bool) -> None:
    metrics = spec.get("metrics") or []
    for at, metric in enumerate(metrics):
        _metric(metric, f"spec.metrics[{at}]", errors, any_version=any_version)
    percent = spec.get("targetCPUUtilizationPercentage")
    if percent is not None and percent < 1:
        # The target utilisation of autoscaling/v1 is validated as a metric.
        errors.append(invalid("spec.metrics[0].resource.target.averageUtilization", percent, "must be greater than 0"))
    if spec.get("minReplicas") == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(field_forbidden("spec.metrics", detail))


def _metric(metric: Object, path: str, errors: Errors, *, any_version: bool) -> None:
    """Validates a metric. If it has several sources, only the first is validated; the others are reported as
    superfluous."""
    kind = metric.get("type", "")
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric source type"))
    if kind not in _SOURCES:
        errors.append(not_supported(f"{path}.type", kind, _SOURCES))
    present = [field for field in _FIELDS if metric.get(field) is not None]
    if present:
        _source(_FIELDS[present[0]], metric[present[0]], f"{path}.{present[0]}", errors, any_version=any_version)
    wanted = next((field for field, source in _FIELDS.items() if source == kind), None)
    if wanted is None:
        errors.append(not_supported(f"{path}.type", kind, _SOURCES))
    elif wanted not in present:
        errors.append(required(f"{path}.{wanted}", "must populate information for the given metric source"))
    if len(present) > 1:
        for field in sorted(set(present) - {wanted}):
            errors.append(field_forbidden(f"{path}.{field}", "must populate the given metric source only"))


def _source(kind: str, source: Object, path: str, errors: Errors, *, any_version: bool) -> None:
    target = source.get("target") or {}
    by_resource = kind in ("Resource", "ContainerResource")
    if by_resource and not source.get("name"):
        errors.append(required(f"{path}.name", "must specify a resource name"))
    if kind == "ContainerResource":
        _container(source, path, errors)
    if kind == "Object":
        described = source.get("describedObject") or {}
        _reference(described, f"{path}.describedObject", errors)
        if not any_version:
            _well_formed(described, f"{path}.describedObject", errors)
    if not by_resource:
        _metric_name((source.get("metric") or {}).get("name") or "", f"{path}.metric.name", errors)
    _metric_target(target, f"{path}.target", errors)
    wanted = _WANTED[kind]
    given = [word for word in wanted if target.get(word) is not None]
    if not given:
        requested = "averageUtilization" if by_resource else "averageValue"
        errors.append(required(f"{path}.target.{requested}", _MISSING[kind]))
    elif len(given) > 1 and by_resource:
        detail = "may not set both a target raw value and a target utilization"
        errors.append(field_forbidden(f"{path}.target.averageValue", detail))
    elif len(given) > 1 and kind == "External":
        detail = "may not set both a target value for metric and a per-pod target"
        errors.append(field_forbidden(f"{path}.target.value", detail))


def _container(source: Object, path: str, errors: Errors) -> None:
    if resource := source.get("name"):
        names_valid(resource, f"{path}.name", container_resource_name(resource), errors)
    if container := source.get("container"):
        names_valid(container, f"{path}.container", names.dns_label(container), errors)
    else:
        errors.append(required(f"{path}.container", "must specify a container"))


def _metric_name(name: str, path: str, errors: Errors) -> None:
    if not name:
        errors.append(required(path, "must specify a metric name"))
    else:
        names_valid(name, path, names.path_segment(name), errors)


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


_FIELDS = {
    "object": "Object",
    "external": "External",
    "pods": "Pods",
    "resource": "Resource",
    "containerResource": "ContainerResource",
}
"""Sources in the order in which they are checked."""
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
