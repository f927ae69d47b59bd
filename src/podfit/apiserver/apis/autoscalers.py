"""Converts HorizontalPodAutoscalers between autoscaling/v1 and autoscaling/v2.

v1 has one metric, CPU utilisation. Everything else of a v2 object is kept in annotations of the v1 object, so that a
client that reads v1 and writes it back removes nothing.
"""

from __future__ import annotations

import json
from typing import Any

from podfit.api.objects import Object
from podfit.api.text.gojson import GoSyntaxError, parse

_PREFIX = "autoscaling.alpha.kubernetes.io/"
METRICS, CURRENT, CONDITIONS, BEHAVIOR = (
    _PREFIX + word for word in ("metrics", "current-metrics", "conditions", "behavior")
)
_SOURCES = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
_TARGETS = {
    "resource": {"averageUtilization": "targetAverageUtilization", "averageValue": "targetAverageValue"},
    "pods": {"averageValue": "targetAverageValue"},
    "object": {"value": "targetValue", "averageValue": "averageValue"},
    "external": {"value": "targetValue", "averageValue": "targetAverageValue"},
}
_CURRENTS = {
    "resource": {"averageUtilization": "currentAverageUtilization", "averageValue": "currentAverageValue"},
    "pods": {"averageValue": "currentAverageValue"},
    "object": {"value": "currentValue", "averageValue": "averageValue"},
    "external": {"value": "currentValue", "averageValue": "currentAverageValue"},
}
_TARGETS["containerResource"], _CURRENTS["containerResource"] = _TARGETS["resource"], _CURRENTS["resource"]
_TYPE_OF = {"averageUtilization": "Utilization", "averageValue": "AverageValue", "value": "Value"}
_REQUIRED = {
    ("object", "target"): "targetValue",
    ("object", "current"): "currentValue",
    ("resource", "current"): "currentAverageValue",
    ("containerResource", "current"): "currentAverageValue",
}
"""Fields that v1 always writes."""


_RULE_FIELDS = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
_POLICY_FIELDS = ("type", "value", "periodSeconds")


def to_v1(obj: Object) -> Object:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    meta = dict(obj.get("metadata") or {})
    metrics, current = spec.pop("metrics", None) or [], status.pop("currentMetrics", None) or []
    conditions, behavior = status.pop("conditions", None) or [], spec.pop("behavior", None)
    cpu = next((metric for metric in metrics if _is_cpu(metric)), None)
    if cpu is not None and _utilisation(cpu, "target") is not None:
        spec["targetCPUUtilizationPercentage"] = _utilisation(cpu, "target")
    for metric in current:
        if _is_cpu(metric) and _utilisation(metric, "current") is not None:
            status["currentCPUUtilizationPercentage"] = _utilisation(metric, "current")
    status.setdefault("currentReplicas", 0)
    status.setdefault("desiredReplicas", 0)
    others = [metric for metric in metrics if not (_is_cpu(metric) and _utilisation(metric, "target") is not None)]
    more = {
        METRICS: [_flat(metric, "target", _TARGETS) for metric in others],
        CURRENT: [_flat(metric, "current", _CURRENTS) for metric in current],
        CONDITIONS: conditions,
        BEHAVIOR: _behavior_as_go(behavior) if behavior else None,
    }
    noted = {name: json.dumps(value, separators=(",", ":")) for name, value in more.items() if value}
    if noted:
        meta["annotations"] = {**(meta.get("annotations") or {}), **noted}
    return {**obj, "apiVersion": "autoscaling/v1", "metadata": meta, "spec": spec, "status": status}


def to_v2(obj: Object) -> Object:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    meta = dict(obj.get("metadata") or {})
    notes: dict[str, Any] = dict(meta.get("annotations") or {})
    metrics, current, conditions, behavior = (
        _read(notes.pop(name, None)) for name in (METRICS, CURRENT, CONDITIONS, BEHAVIOR)
    )
    made = [_deep(metric, "target", _TARGETS) for metric in metrics or []]
    target = spec.pop("targetCPUUtilizationPercentage", None)
    if target is None and not made:
        target = 80
    if target is not None:
        made.append(_cpu_metric("target", {"type": "Utilization", "averageUtilization": target}))
    spec["metrics"] = made
    if behavior:
        spec["behavior"] = _untitled(behavior)
    now = status.pop("currentCPUUtilizationPercentage", None)
    if current:
        status["currentMetrics"] = [_deep(metric, "current", _CURRENTS) for metric in current]
    elif now is not None:
        status["currentMetrics"] = [_cpu_metric("current", {"averageUtilization": now})]
    if conditions:
        status["conditions"] = conditions
    if "annotations" in meta:
        meta["annotations"] = notes
        if not notes:
            del meta["annotations"]
    return {**obj, "apiVersion": "autoscaling/v2", "metadata": meta, "spec": spec, "status": status}


def in_measured_order(metrics: list[Object], current: list[Object]) -> list[Object]:
    """The metrics of a converted v1 object, whose CPU utilisation is the last, in the order of its measurements."""
    places = [at for at, metric in enumerate(current) if _is_cpu(metric)]
    if not places or len(current) != len(metrics) or not _is_cpu(metrics[-1]):
        return metrics
    return [*metrics[: places[0]], metrics[-1], *metrics[places[0] : -1]]


def _is_cpu(metric: Object) -> bool:
    return metric.get("type") == "Resource" and (metric.get("resource") or {}).get("name") == "cpu"


def _utilisation(metric: Object, word: str) -> Any:
    return ((metric.get("resource") or {}).get(word) or {}).get("averageUtilization")


def _cpu_metric(word: str, value: Object) -> Object:
    return {"type": "Resource", "resource": {"name": "cpu", word: value}}


def _flat(metric: Object, word: str, names: dict[str, dict[str, str]]) -> Object:
    """Converts a v2 metric to the form of v1."""
    field = _SOURCES.get(metric.get("type", ""), "")
    source = metric.get(field) or {}
    made = {key: source[key] for key in ("name", "container") if key in source}
    if "describedObject" in source:
        made["target"] = source["describedObject"]
    if "metric" in source:
        made["metricName"] = source["metric"].get("name", "")
        if source["metric"].get("selector"):
            made["metricSelector" if field == "external" else "selector"] = source["metric"]["selector"]
    for key, value in (source.get(word) or {}).items():
        if key in names.get(field, {}):
            made[names[field][key]] = value
    if (always := _REQUIRED.get((field, word))) is not None:
        made.setdefault(always, "0")
    return {"type": metric.get("type", ""), field: made} if field else {"type": metric.get("type", "")}


def _deep(metric: Object, word: str, names: dict[str, dict[str, str]]) -> Object:
    """Converts a metric in the form of v1 to v2."""
    field = _SOURCES.get(metric.get("type", ""), "")
    source = metric.get(field) or {}
    made: Object = {key: source[key] for key in ("name", "container") if key in source}
    if "target" in source:
        made["describedObject"] = source["target"]
    if "metricName" in source:
        made["metric"] = {"name": source["metricName"]}
        if selector := source.get("metricSelector") or source.get("selector"):
            made["metric"]["selector"] = selector
    always, value = _REQUIRED.get((field, word)), {}
    for theirs, mine in names.get(field, {}).items():
        if mine in source and not (mine == always and source[mine] == "0"):
            value[theirs] = source[mine]
    if word == "target":
        kind = next((_TYPE_OF[key] for key in ("averageUtilization", "averageValue", "value") if key in value), "Value")
        made[word] = {"type": kind, **value}
    else:
        made[word] = value
    return {"type": metric.get("type", ""), field: made} if field else {"type": metric.get("type", "")}


def _behavior_as_go(behavior: Object) -> Object:
    """The behavior as Go encodes structs without field tags: all fields, capitalised, null if they are unset."""
    return {
        "ScaleUp": _fields_as_go(behavior.get("scaleUp"), _RULE_FIELDS),
        "ScaleDown": _fields_as_go(behavior.get("scaleDown"), _RULE_FIELDS),
    }


def _fields_as_go(value: Any, fields: tuple[str, ...]) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_fields_as_go(item, _POLICY_FIELDS) for item in value]
    if not isinstance(value, dict):
        return value
    return {field[0].upper() + field[1:]: _fields_as_go(value.get(field), ()) for field in fields}


def _untitled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key[:1].lower() + key[1:]: _untitled(item) for key, item in value.items() if item is not None}
    return [_untitled(item) for item in value] if isinstance(value, list) else value


def _read(text: Any) -> Any:
    """The parsed value of an annotation; None if it is invalid."""
    try:
        return parse(text.encode()) if isinstance(text, str) and text else None
    except GoSyntaxError:
        return None
