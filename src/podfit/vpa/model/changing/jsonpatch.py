"""JSON patches of pods: resources and annotations. Admission applies them to new pods, the updater to running ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from podfit.api.objects import ObjectView
from podfit.vpa.model.fitting.container_resources import ContainerResources
from podfit.vpa.model.objects.pods import ResourceList

Patch = list[dict[str, Any]]


def container_patch(
    container: ObjectView, index: int, wanted: ContainerResources, gone: Iterable[str] = ()
) -> tuple[Patch, list[str]]:
    """The patch of one container, and descriptions of what it sets. `gone` are the limits that it removes."""
    current = container.get("resources") or {}
    base = f"/spec/containers/{index}/resources"
    patch: Patch = []
    if current.get("requests") is None and current.get("limits") is None:
        patch.append(add(base, {}))
    requests, set_requests = _resource_patch(f"{base}/requests", current.get("requests"), wanted.requests, "request")
    limits, set_limits = _resource_patch(f"{base}/limits", current.get("limits"), wanted.limits, "limit")
    names = list(gone)
    removed: Patch = [{"op": "remove", "path": f"{base}/limits/{escape(name)}"} for name in names]
    if names and not wanted.limits and set(names) == set(current.get("limits") or ()):
        removed = [{"op": "remove", "path": f"{base}/limits"}]
    return patch + removed + requests + limits, set_requests + set_limits + [f"{name} limit removed" for name in names]


def _resource_patch(path: str, current: Any, wanted: ResourceList, word: str) -> tuple[Patch, list[str]]:
    if not wanted:
        return [], []
    names = sorted(wanted)
    patch = [add(path, {})] if current is None else []
    patch += [add(f"{path}/{escape(name)}", wanted[name].as_written()) for name in names]
    return patch, [f"{name} {word}" for name in names]


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def annotate(key: str, value: str) -> dict[str, Any]:
    return add(f"/metadata/annotations/{escape(key)}", value)


def escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def remove_annotation(key: str) -> dict[str, Any]:
    return {"op": "remove", "path": f"/metadata/annotations/{escape(key)}"}
