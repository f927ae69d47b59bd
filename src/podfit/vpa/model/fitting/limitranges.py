"""The merged bounds of a namespace's LimitRange objects for containers and for pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity
from podfit.vpa.model.objects.pods import ResourceList, printed, resource_list
from podfit.vpa.model.objects.policy import RESOURCES


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one kind of object. None means that no LimitRange sets a bound, an empty list that one exists
    without these resources."""

    type: str
    max: ResourceList | None = None
    min: ResourceList | None = None
    default: ResourceList | None = None

    def to_object(self) -> dict[str, Any]:
        fields = {"max": self.max, "min": self.min, "default": self.default}
        return {"type": self.type, **{name: printed(values) for name, values in fields.items() if values}}


@dataclass(frozen=True, slots=True)
class NamespaceBounds:
    container: Bounds | None = None
    pod: Bounds | None = None
    all_containers: bool = False
    """Whether the bounds of a pod also scale containers without a recommendation, as upstream does."""


NO_BOUNDS = NamespaceBounds()


def merged(limit_ranges: Iterable[ObjectView], namespace: str, all_containers: bool = False) -> NamespaceBounds:
    """The tightest bounds of a namespace's objects. If several set defaults, the last one by name applies."""
    items: dict[str, list[ObjectView]] = {"Container": [], "Pod": []}
    here = [entry for entry in limit_ranges if (entry.get("metadata") or {}).get("namespace") == namespace]
    for entry in sorted(here, key=lambda entry: str(entry["metadata"].get("name"))):
        for item in (entry.get("spec") or {}).get("limits") or ():
            if item.get("type") in items:
                items[item["type"]].append(item)
    return NamespaceBounds(_merge("Container", items["Container"]), _merge("Pod", items["Pod"]), all_containers)


def _merge(type: str, items: Iterable[ObjectView]) -> Bounds | None:
    most: ResourceList | None = None
    least: ResourceList | None = None
    default: ResourceList | None = None
    for item in items:
        most = _tighter(most, item.get("max"), lambda one, other: one if one < other else other)
        least = _tighter(least, item.get("min"), lambda one, other: one if one > other else other)
        if item.get("default") is not None:
            default = resource_list(item["default"])
    if most is None and least is None and default is None:
        return None
    return Bounds(type, most, least, default)


def _tighter(
    known: ResourceList | None, raw: Mapping[str, Any] | None, choose: Callable[[Quantity, Quantity], Quantity]
) -> ResourceList | None:
    if raw is None:
        return known
    given = resource_list(raw)
    if known is None:
        return given
    known = dict(known)
    for resource in RESOURCES:
        if resource in given:
            other = given[resource]
            known[resource] = choose(known[resource], other) if resource in known else other
    return known
