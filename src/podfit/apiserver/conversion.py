"""Kinds that are served in more than one shape: Events (core and events.k8s.io) and autoscalers (v1 and v2).

Events are stored as core/v1, HorizontalPodAutoscalers as autoscaling/v2. Versions of custom resources are the work of
`versions`, and their apiVersion that of the splicer.
"""

from __future__ import annotations

from podfit.api.kinds import Kind
from podfit.api.status import Object

_EVENT_FIELDS = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_CORE_FIELDS = {new: old for old, new in _EVENT_FIELDS.items()}


def needed(kind: Kind) -> bool:
    return kind.group == "events.k8s.io" or (kind.group == "autoscaling" and kind.version == "v1")


def to_served(kind: Kind, obj: Object) -> Object:
    """A stored object in the shape of `kind`."""
    if not needed(kind):
        if kind.custom:
            obj["apiVersion"] = kind.api_version
        return obj
    if kind.group == "events.k8s.io":
        shown = _renamed(obj, _EVENT_FIELDS, kind.api_version)
        for name in ("reportingController", "reportingInstance", "note"):
            if not shown.get(name):
                shown.pop(name, None)
        return shown
    return _hpa_v1(obj)


def to_stored(kind: Kind, obj: Object) -> Object:
    """An object in the shape of `kind` as it is stored."""
    if not needed(kind):
        return obj
    if kind.group == "events.k8s.io":
        stored = _renamed(obj, _CORE_FIELDS, "v1")
        stored.setdefault("involvedObject", {})
        stored.setdefault("source", {})
        stored.setdefault("firstTimestamp", None)
        stored.setdefault("lastTimestamp", None)
        return stored
    return _hpa_v2(obj)


def _renamed(obj: Object, names: dict[str, str], api_version: str) -> Object:
    renamed = {names.get(key, key): value for key, value in obj.items()}
    renamed["apiVersion"] = api_version
    return renamed


def _hpa_v1(obj: Object) -> Object:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    metrics = spec.pop("metrics", None) or []
    spec.pop("behavior", None)
    target = next(filter(_is_cpu_utilisation, metrics), None)
    if target is not None:
        spec["targetCPUUtilizationPercentage"] = target["resource"]["target"]["averageUtilization"]
    current = next((m for m in status.pop("currentMetrics", None) or [] if m.get("type") == "Resource"), None)
    if current is not None and "averageUtilization" in current["resource"].get("current", {}):
        status["currentCPUUtilizationPercentage"] = current["resource"]["current"]["averageUtilization"]
    status.pop("conditions", None)
    status.setdefault("currentReplicas", 0)
    status.setdefault("desiredReplicas", 0)
    return {**obj, "apiVersion": "autoscaling/v1", "spec": spec, "status": status}


def _hpa_v2(obj: Object) -> Object:
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    target = spec.pop("targetCPUUtilizationPercentage", None)
    if target is not None:
        spec["metrics"] = [_cpu_metric("target", {"type": "Utilization", "averageUtilization": target})]
    current = status.pop("currentCPUUtilizationPercentage", None)
    if current is not None:
        status["currentMetrics"] = [_cpu_metric("current", {"averageUtilization": current})]
    return {**obj, "apiVersion": "autoscaling/v2", "spec": spec, "status": status}


def _cpu_metric(word: str, value: Object) -> Object:
    return {"type": "Resource", "resource": {"name": "cpu", word: value}}


def _is_cpu_utilisation(metric: Object) -> bool:
    resource = metric.get("resource") or {}
    return resource.get("name") == "cpu" and "averageUtilization" in (resource.get("target") or {})
