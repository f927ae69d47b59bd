"""Converts kinds that are served in several forms: Events (core and events.k8s.io) and autoscalers (v1 and v2).

Events are stored as core/v1, HorizontalPodAutoscalers as autoscaling/v2. Versions of custom resources are converted by
`versions`, and their apiVersion set by the splicer.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.apiserver.apis import autoscalers
from podfit.apiserver.storage.usable import converted

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
    """Converts a stored object to the form of `kind`."""
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
    shown = converted(kind, obj, autoscalers.to_v1)
    return {**shown, "apiVersion": kind.api_version}


def to_stored(kind: Kind, obj: Object) -> Object:
    """Converts an object of `kind` to its stored form."""
    if not needed(kind):
        return obj
    if kind.group == "events.k8s.io":
        stored = _renamed(obj, _CORE_FIELDS, "v1")
        stored.setdefault("involvedObject", {})
        stored.setdefault("source", {})
        stored.setdefault("firstTimestamp", None)
        stored.setdefault("lastTimestamp", None)
        return stored
    return autoscalers.to_v2(obj)


def _renamed(obj: Object, names: dict[str, str], api_version: str) -> Object:
    renamed = {names.get(key, key): value for key, value in obj.items()}
    renamed["apiVersion"] = api_version
    return renamed
