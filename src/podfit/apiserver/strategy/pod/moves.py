"""Restores the migration state of a pod in all writes except those through pods/migrate."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.pods.migrations import ANNOTATION, moving


def drop_migration(new: Object) -> None:
    """Removes the migration state of a new pod, which may be a copy of a migrated one."""
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
