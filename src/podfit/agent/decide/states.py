"""The four states of a pod's size as four types, and how they compare.

Desired is what the API asks for, Allocated what this node has promised, Actuated what the runtime was last told with
success, Actual what the kernel says. Values are kept as the JSON the API has (so nothing is lost on the way to disk
and back); numbers are taken from them where decisions are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from podfit.api.quantity import milli_of, units_of

Object = dict[str, Any]
Resources = Mapping[str, Any]
"""A ResourceRequirements: `requests` and `limits`, each a map from resource to quantity."""

CPU, MEMORY = "cpu", "memory"
RESOURCES = (MEMORY, CPU)
"""In the order they are acted on: memory before CPU."""


# The same few texts are read many times in a pass. Never stale: a text always means the same number.
_milli = lru_cache(maxsize=4096, typed=True)(milli_of)
_units = lru_cache(maxsize=4096, typed=True)(units_of)


class Amount(NamedTuple):
    """Request and limit of one resource (milli CPUs, or bytes); None where unset."""

    request: int | None = None
    limit: int | None = None


_UNSET = Amount()


def amount(resources: Resources | None, name: str) -> Amount:
    if not resources:
        return _UNSET
    read = _milli if name == CPU else _units
    requests, limits = resources.get("requests"), resources.get("limits")
    return Amount(
        read(requests[name]) if requests and name in requests else None,
        read(limits[name]) if limits and name in limits else None,
    )


def differs(one: Resources | None, other: Resources | None, name: str) -> bool:
    """Unset and zero are the same: the API cannot tell a runtime apart from either."""
    read = _milli if name == CPU else _units
    for key in ("requests", "limits"):
        mine, theirs = _text(one, key, name), _text(other, key, name)
        # Most texts are the same: only others are read as numbers.
        if mine != theirs and read(mine or 0) != read(theirs or 0):
            return True
    return False


def _text(resources: Resources | None, key: str, name: str) -> Any:
    listed = resources.get(key) if resources else None
    return listed.get(name) if listed else None


def same(one: Resources | None, other: Resources | None) -> bool:
    return one == other or not (differs(one, other, CPU) or differs(one, other, MEMORY))


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the first three states have in common."""

    containers: Mapping[str, Resources] = field(default_factory=dict)
    """All of the pod's containers, init containers included, by name."""
    pod: Resources | None = None
    """Pod-level resources (spec.resources), None where the pod has none."""


@dataclass(frozen=True, slots=True)
class Desired(Sizes):
    """What was asked for."""


@dataclass(frozen=True, slots=True)
class Allocated(Sizes):
    """What this node has promised."""


@dataclass(frozen=True, slots=True)
class Actuated(Sizes):
    """What the runtime was last told. Limits are effective ones: a container without its own has the pod's."""


def equal(one: Sizes, other: Sizes) -> bool:
    if one.containers is other.containers and one.pod is other.pod:
        return True
    if one.containers.keys() != other.containers.keys() or not same(one.pod, other.pod):
        return False
    return all(same(resources, other.containers[name]) for name, resources in one.containers.items())


def desired_of(pod: Mapping[str, Any]) -> Desired:
    spec = pod["spec"]
    sizes = {container["name"]: clean(container.get("resources")) for container in all_containers(spec)}
    return Desired(sizes, clean(spec["resources"]) if spec.get("resources") else None)


def clean(resources: Resources | None) -> Object:
    """Requests and limits only, as they go into the ledger, Events and status."""
    if not resources:
        return {}
    return {key: dict(resources[key]) for key in ("limits", "requests") if resources.get(key)}


def all_containers(spec: Mapping[str, Any]) -> Iterator[Object]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def every_container(spec: Mapping[str, Any]) -> Iterator[Object]:
    """Also those that were added to look into a running pod: they have no size and are never started again."""
    yield from all_containers(spec)
    yield from spec.get("ephemeralContainers") or ()


def resized(pod: Mapping[str, Any], sizes: Sizes) -> Object:
    """The pod as it would be with these sizes in its spec; the original is not touched."""
    spec = dict(pod["spec"])
    for key in ("initContainers", "containers"):
        if spec.get(key):
            spec[key] = [_sized(container, sizes.containers.get(container["name"])) for container in spec[key]]
    if sizes.pod is not None:
        spec["resources"] = {**(spec.get("resources") or {}), **sizes.pod}
    elif "resources" in spec:
        del spec["resources"]
    return {**pod, "spec": spec}


def _sized(container: Object, resources: Resources | None) -> Object:
    if resources is None:
        return container
    kept = {key: value for key, value in (container.get("resources") or {}).items() if key == "claims"}
    return {**container, "resources": {**kept, **resources}}


def effective(resources: Resources | None, pod_level: Resources | None) -> Object:
    """A container's resources with the pod's limits where it has none of its own."""
    mine = clean(resources)
    if pod_level and (limits := pod_level.get("limits")):
        inherited = {name: limits[name] for name in (CPU, MEMORY) if name in limits}
        if inherited:
            mine["limits"] = {**inherited, **mine.get("limits", {})}
    return mine
