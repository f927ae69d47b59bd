"""Reads a pod for the autoscaler: containers, their current resources, owner and conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity

ResourceList = dict[str, Quantity]

FROM_STATUS, FROM_SPEC = "Pod.Status.ContainerStatuses", "Pod.Spec.Containers"
reads = {FROM_STATUS: 0, FROM_SPEC: 0}
"""How often resources were read from each source, for a metric."""


def resource_list(raw: Mapping[str, Any] | None) -> ResourceList:
    return {name: Quantity.parse(value) for name, value in (raw or {}).items()}


def printed(resources: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: quantity.as_written() for name, quantity in resources.items()}


def containers(pod: ObjectView) -> list[ObjectView]:
    return (pod.get("spec") or {}).get("containers") or []


def container_status(pod: ObjectView, name: str) -> ObjectView | None:
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status.get("name") == name:
            return status  # type: ignore[no-any-return]
    return None


def resources_of(pod: ObjectView, name: str) -> ObjectView:
    """The resources in force: those in the container's status if it has any, else those in the spec."""
    status = container_status(pod, name)
    if status is not None and status.get("resources") is not None:
        reads[FROM_STATUS] += 1
        return status["resources"]  # type: ignore[no-any-return]
    for container in containers(pod):
        if container.get("name") == name:
            reads[FROM_SPEC] += 1
            return container.get("resources") or {}
    return {}


def requests_of(pod: ObjectView, name: str) -> ResourceList:
    return resource_list(resources_of(pod, name).get("requests"))


def limits_of(pod: ObjectView, name: str) -> ResourceList:
    return resource_list(resources_of(pod, name).get("limits"))


def controller_of(object: ObjectView) -> ObjectView | None:
    """The owner reference that is marked as controller."""
    for owner in (object.get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("controller"):
            return owner  # type: ignore[no-any-return]
    return None


def annotations_of(object: ObjectView) -> Mapping[str, str]:
    return (object.get("metadata") or {}).get("annotations") or {}


def labels_of(object: ObjectView) -> Mapping[str, str]:
    return (object.get("metadata") or {}).get("labels") or {}


def condition(object: ObjectView, type: str) -> ObjectView | None:
    for found in (object.get("status") or {}).get("conditions") or ():
        if found.get("type") == type:
            return found  # type: ignore[no-any-return]
    return None


def phase_of(pod: ObjectView) -> str:
    return (pod.get("status") or {}).get("phase") or ""
