"""The four states of a pod's size as four types, and how they compare. Pure.

Desired is requested by the spec, Allocated is reserved by the node, Actuated was last accepted by the runtime, and
Actual is reported by the kernel. Values are kept as JSON, as in the API, so that nothing is lost on the way to disk and
back; they are parsed where decisions are made.

The agent stores Allocated and Actuated in its ledger (`agent/allocation/allocations` and `agent/actuation/actuator` are
the only writers). Other components see what it reports: `allocated_of` and `actual_of` read the status of a pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from podfit.api.objects import Object
from podfit.api.quantity import milli_of, units_of

Resources = Mapping[str, Any]
"""A ResourceRequirements: `requests` and `limits`, each a map from resource to quantity."""

CPU, MEMORY = "cpu", "memory"
RESOURCES = (MEMORY, CPU)
"""In the order in which they are applied: memory before CPU."""


# The same few texts are parsed many times in a pass. Never stale: a text always means the same number.
_milli = lru_cache(maxsize=4096, typed=True)(milli_of)
_units = lru_cache(maxsize=4096, typed=True)(units_of)


def number(text: Any, name: str) -> int:
    """A quantity in milli CPUs, or bytes."""
    return _milli(text) if name == CPU else _units(text)


class Amount(Struct, frozen=True):
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
    """Whether sizes differ. Unset and zero are equal, because the API cannot distinguish a runtime's values for
    them."""
    for key in ("requests", "limits"):
        listed, others = one.get(key) if one else None, other.get(key) if other else None
        # Most lists and texts are identical: only others are parsed.
        if listed == others:
            continue
        mine, theirs = listed.get(name) if listed else None, others.get(name) if others else None
        if mine != theirs and number(mine or 0, name) != number(theirs or 0, name):
            return True
    return False


def same(one: Resources | None, other: Resources | None) -> bool:
    return one is other or one == other or not (differs(one, other, CPU) or differs(one, other, MEMORY))


class Sizes(Struct, frozen=True):
    """The common part of the states. Immutable: states share equal parts."""

    containers: Mapping[str, Resources] = {}
    """All of the pod's containers, init containers included, by name."""
    pod: Resources | None = None
    """Pod-level resources (spec.resources), None if the pod has none."""


class Desired(Sizes, frozen=True):
    """The size in the spec."""


class Allocated(Sizes, frozen=True):
    """The size that this node has reserved."""


class Actuated(Sizes, frozen=True):
    """The size that the runtime last accepted. Limits are effective ones: a container without its own has the pod's."""


class Actual(Sizes, frozen=True):
    """The size reported by the kernel, in the API's units. The kernel has no memory requests."""


def shared(one: Sizes, other: Sizes) -> bool:
    """Whether sizes are identical objects: an allocation shares its contents with the request it was made from."""
    return one.containers is other.containers and one.pod is other.pod


def equal(one: Sizes, other: Sizes) -> bool:
    if shared(one, other):
        return True
    if one.containers.keys() != other.containers.keys() or not same(one.pod, other.pod):
        return False
    others = [other.containers[name] for name in one.containers]
    return all(map(same, one.containers.values(), others))


def requests_equal(one: Sizes, other: Sizes) -> bool:
    """Whether the requests of two sizes are identical as text: then no sums have to be compared."""
    if one.pod != other.pod or one.containers.keys() != other.containers.keys():
        return False
    others = other.containers
    return all(mine.get("requests") == others[name].get("requests") for name, mine in one.containers.items())


def desired_of(pod: Mapping[str, Any], known: Desired | None = None) -> Desired:
    """The desired size of a pod. `known`: an earlier one, with which equal sizes are shared."""
    spec = pod["spec"]
    before = known.containers if known is not None else {}
    sizes: dict[str, Resources] = {}
    changed = False
    for container in all_containers(spec):
        name, mine = container["name"], clean(container.get("resources"))
        old = before.get(name)
        if old is not None and old == mine:
            sizes[name] = old
        else:
            sizes[name] = mine
            changed = True
    level = clean(spec["resources"]) if spec.get("resources") else None
    if known is not None and not changed and len(sizes) == len(before) and level == known.pod:
        return known
    return Desired(sizes, level)


def allocated_of(pod: Mapping[str, Any]) -> Allocated:
    """The allocation that the node has reported (requests only), without containers that it has not reported on."""
    listed = _reported(pod, "allocatedResources")
    return Allocated({name: {"requests": requests} for name, requests in listed.items()})


def actual_of(pod: Mapping[str, Any]) -> Actual:
    """The actual size that the node has reported."""
    return Actual(_reported(pod, "resources"), (pod.get("status") or {}).get("resources"))


def _reported(pod: Mapping[str, Any], field: str) -> dict[str, Resources]:
    status = pod.get("status") or {}
    return {
        container["name"]: container[field]
        for listed in ("initContainerStatuses", "containerStatuses")
        for container in status.get(listed) or ()
        if container.get(field) is not None
    }


def clean(resources: Resources | None) -> Object:
    """Only requests and limits, as written to the ledger, Events and status. Shares the lists with `resources`."""
    cleaned: Object = {}
    if resources:
        if limits := resources.get("limits"):
            cleaned["limits"] = limits
        if requests := resources.get("requests"):
            cleaned["requests"] = requests
    return cleaned


def all_containers(spec: Mapping[str, Any]) -> Sequence[Object]:
    containers: Sequence[Object] = spec.get("containers") or ()
    inits = spec.get("initContainers")
    return [*inits, *containers] if inits else containers


def every_container(spec: Mapping[str, Any]) -> Sequence[Object]:
    """All containers of a pod, including ephemeral ones, which have no size and are never restarted."""
    added = spec.get("ephemeralContainers")
    return [*all_containers(spec), *added] if added else all_containers(spec)


def resized(pod: Mapping[str, Any], sizes: Sizes) -> Object:
    """The pod as it would be with these sizes in its spec; the original is not modified."""
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
    """A container's resources, with the pod's limits where it has none of its own."""
    mine = clean(resources)
    if pod_level and (limits := pod_level.get("limits")):
        inherited = {name: limits[name] for name in (CPU, MEMORY) if name in limits}
        if inherited:
            mine["limits"] = {**inherited, **mine.get("limits", {})}
    return mine
