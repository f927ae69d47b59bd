"""Hides the annotation that replaced a field of DaemonSets, where an object's metadata is sent without the object.

Kubernetes adds the annotation while it converts a whole object to apps/v1, so tables and partial metadata lack it.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind

_ANNOTATION = "deprecated.daemonset.template.generation"


def hides(kind: Kind) -> bool:
    return (kind.group, kind.kind) == ("apps", "DaemonSet")


def shown_metadata(metadata: Object) -> Object:
    notes = metadata.get("annotations") or {}
    if _ANNOTATION not in notes:
        return metadata
    kept = {key: value for key, value in notes.items() if key != _ANNOTATION}
    shown = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**shown, "annotations": kept} if kept else shown
