"""The migration state of a pod is written through pods/migrate only: other writes leave it unchanged."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.pods.migrations import ANNOTATION, moving


def drop_migration(new: Object) -> None:
    """A copy of a pod has not been migrated."""
    annotations = new["metadata"].get("annotations")
    if annotations and ANNOTATION in annotations:
        new["metadata"]["annotations"] = {key: value for key, value in annotations.items() if key != ANNOTATION}


def keep_migration(new: Object, old: Object) -> None:
    before = (old["metadata"].get("annotations") or {}).get(ANNOTATION)
    given = new["metadata"].get("annotations") or {}
    if given.get(ANNOTATION) != before:
        drop_migration(new)
        if before is not None:
            new["metadata"]["annotations"] = {**(new["metadata"].get("annotations") or {}), ANNOTATION: before}
    if before is None or moving(old) is None:
        return
    target = (old.get("status") or {}).get("nominatedNodeName")
    if target and (new.get("status") or {}).get("nominatedNodeName") != target:
        new["status"] = {**(new.get("status") or {}), "nominatedNodeName": target}
