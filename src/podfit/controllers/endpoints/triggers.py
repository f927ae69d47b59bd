"""The time of the change for which endpoints are written: consumers measure with it how long a change takes to reach
them.

The earliest of the changes since the last pass: a pod became ready or unready. For a new Service it is its creation.
"""

from __future__ import annotations

from collections.abc import Sequence

from podfit.api.objects import Object
from podfit.controllers.endpoints.members import Key

ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time"


class Triggers:
    def __init__(self) -> None:
        self._pods: dict[Key, dict[str, str]] = {}
        """By Service, the times at which its pods last changed."""

    def of(self, key: Key, service: Object, pods: Sequence[Object]) -> str:
        """The time for this pass; "" if nothing that counts has changed. Timestamps are compared as text."""
        before = self._pods.get(key)
        now = self._pods[key] = {pod["metadata"]["name"]: time for pod in pods if (time := _changed(pod))}
        if before is None:
            return str(service["metadata"].get("creationTimestamp") or "")
        return min((time for name, time in now.items() if time > before.get(name, "")), default="")

    def forget(self, key: Key) -> None:
        self._pods.pop(key, None)


def noted(meta: Object, time: str) -> Object:
    """Metadata with the annotation of this pass, or without that of an earlier one."""
    notes = {name: text for name, text in (meta.get("annotations") or {}).items() if name != ANNOTATION}
    if time:
        notes[ANNOTATION] = time
    kept = {field: value for field, value in meta.items() if field != "annotations"}
    return {**kept, "annotations": notes} if notes else kept


def _changed(pod: Object) -> str:
    rows = (pod.get("status") or {}).get("conditions") or ()
    return next((row.get("lastTransitionTime") or "" for row in rows if row.get("type") == "Ready"), "")
