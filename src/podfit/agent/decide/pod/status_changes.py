"""Computes the change from one status to another, as a patch. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.api.objects import Object


def patch(before: Mapping[str, Any], after: Mapping[str, Any], uid: str) -> Object | None:
    """A strategic merge patch with only the changes, bound to this pod's uid; None if there are none."""
    changes: Object = {}
    for key, value in after.items():
        if before.get(key) == value:
            continue
        if key == "conditions":
            changes.update(_condition_changes(before.get(key) or [], value))
        elif key in ("podIPs", "hostIPs"):
            gone = [{"$patch": "delete", "ip": item["ip"]} for item in before.get(key) or () if item not in value]
            changes[key] = [*value, *gone]
        elif key in ("allocatedResources", "resources"):
            changes[key] = _map_changes(before.get(key) or {}, value)
            if not before.get(key):
                changes[key] = value
        else:
            changes[key] = value
    for key in ("reason", "message", "allocatedResources", "nominatedNodeName"):
        if before.get(key) and key not in after:
            changes[key] = None
    if not changes:
        return None
    return {"metadata": {"uid": uid}, "status": changes}


def _condition_changes(before: list[Object], after: list[Object]) -> Object:
    known = {condition["type"]: condition for condition in before}
    types = [condition["type"] for condition in after]
    changed = [_changed_condition(condition, known.pop(condition["type"], None)) for condition in after]
    changes = [change for change in changed if change is not None] + [
        {"$patch": "delete", "type": kind} for kind in known
    ]
    if [condition["type"] for condition in before] == types:
        return {"conditions": changes} if changes else {}
    return {"$setElementOrder/conditions": [{"type": kind} for kind in types], "conditions": changes}


def _changed_condition(condition: Object, old: Object | None) -> Object | None:
    """The patch of a condition; None if nothing changed. A merge patch keeps the fields it omits, so an outdated reason
    is removed by an explicit null."""
    if old is None:
        return condition
    if old == condition:
        return None
    if "reason" not in old and "message" not in old:
        return condition
    return {**condition, **{key: None for key in ("reason", "message") if key in old and key not in condition}}


def _map_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Object:
    """Maps merge key by key: removed keys need an explicit null."""
    changes: Object = {}
    for key, value in after.items():
        old = before.get(key)
        if old == value:
            continue
        changes[key] = _map_changes(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    changes.update({key: None for key in before if key not in after})
    return changes
