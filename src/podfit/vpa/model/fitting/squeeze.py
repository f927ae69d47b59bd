"""Fits the size of a new pod to free capacity: at most what the largest node can hold, reduced towards the recommended
minimum if the target does not fit. Pure.

The updater uses it for the successor of an evicted pod, and admission for the pod itself, so that both agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from podfit.api.objects import ObjectView
from podfit.vpa.model.fitting.capping import capped_for_pod
from podfit.vpa.model.fitting.container_resources import ContainerResources, resources_for_pod
from podfit.vpa.model.fitting.limitranges import NamespaceBounds
from podfit.vpa.model.objects.pods import containers, controller_of, printed
from podfit.vpa.model.objects.policy import CPU, MEMORY, RESOURCES, container_recommendations, recommending
from podfit.vpa.model.room import RoomLedger, amount, amounts_of, as_quantity, shown

Sizes = dict[tuple[str, str], int]
"""(container, resource) → amount requested."""
Holds = Callable[[ObjectView], bool]
"""Returns whether a pod with its new resources fits."""
STEPS = 10
_ORDER = ((CPU,), (MEMORY,), RESOURCES)
"""The order of reduction: a container with little CPU is slow, one with little memory is killed."""


@dataclass(frozen=True, slots=True)
class Fitted:
    vpa: ObjectView
    """The autoscaler with the targets for the pod."""
    pod: ObjectView
    """The pod with those resources."""
    fits: bool = True
    """Whether it fits now."""
    notes: tuple[str, ...] = ()
    """The reductions, and their reasons."""
    targets: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """The recommendation, by container and resource; set if something was reduced."""


def fitted(vpa: ObjectView, pod: ObjectView, bounds: NamespaceBounds, ledger: RoomLedger, holds: Holds) -> Fitted:
    """The largest size between the lower bound and the target that fits.

    If not even the lower bound fits, the result is the target, capped at the largest node: capacity may become free
    later.
    """
    wanted = sized(pod, resources_for_pod(vpa, pod, bounds)[0])
    capped = _capped(vpa, pod, bounds, wanted, ledger)
    notes: tuple[str, ...] = ()
    if capped is not None:
        vpa, wanted, notes = capped
    if holds(wanted):
        return Fitted(vpa, wanted, True, notes)
    targets, lowest = _range(vpa, pod, bounds)
    for resources in _ORDER:
        found = _squeezed(vpa, pod, bounds, targets, lowest, resources, holds)
        if found is not None:
            cut = tuple(
                f"container {name}: {shown(resource, size)} of {resource} instead of "
                f"{shown(resource, targets[name, resource])}, which no node or quota has left"
                for (name, resource), size in sorted(found[2].items())
                if size < targets[name, resource]
            )
            return Fitted(found[0], found[1], True, (*notes, *cut), targets)
    return Fitted(vpa, wanted, False, notes)


def lowest(vpa: ObjectView, pod: ObjectView, bounds: NamespaceBounds) -> ObjectView:
    """The pod at its recommended lower bound."""
    _, sizes = _range(vpa, pod, bounds)
    return sized(pod, resources_for_pod(with_targets(vpa, sizes), pod, bounds)[0])


def sized(pod: ObjectView, wanted: list[ContainerResources]) -> ObjectView:
    """The pod with these resources as a new pod, that is, without a status."""
    made = []
    for container, new in zip(containers(pod), wanted, strict=True):
        old = container.get("resources") or {}
        resources = {
            **old,
            "requests": {**(old.get("requests") or {}), **printed(new.requests)},
            "limits": {**(old.get("limits") or {}), **printed(new.limits)},
        }
        made.append({**container, "resources": resources})
    return {"metadata": pod.get("metadata") or {}, "spec": {**(pod.get("spec") or {}), "containers": made}}


def with_targets(vpa: ObjectView, sizes: Mapping[tuple[str, str], int]) -> ObjectView:
    """The autoscaler with these targets instead of its own."""
    entries = []
    for entry in container_recommendations(vpa):
        name = entry.get("containerName") or ""
        changed = {
            resource: as_quantity(resource, sizes[name, resource]).as_written()
            for resource in entry.get("target") or {}
            if (name, resource) in sizes
        }
        entries.append({**entry, "target": {**(entry.get("target") or {}), **changed}})
    return recommending(vpa, {"containerRecommendations": entries})


def _range(vpa: ObjectView, pod: ObjectView, bounds: NamespaceBounds) -> tuple[Sizes, Sizes]:
    """The targets, and the least acceptable sizes: the lower bounds, or the targets where there is none."""
    targets: Sizes = {}
    least: Sizes = {}
    for entry in (capped_for_pod(vpa, pod, bounds) or ([], {}))[0]:
        for resource in RESOURCES:
            if resource in entry.target:
                key, target = (entry.container, resource), amount(resource, entry.target[resource])
                low = entry.lower.get(resource)
                targets[key] = target
                least[key] = target if low is None else min(target, amount(resource, low))
    return targets, least


def _capped(
    vpa: ObjectView, pod: ObjectView, bounds: NamespaceBounds, wanted: ObjectView, ledger: RoomLedger
) -> tuple[ObjectView, ObjectView, tuple[str, ...]] | None:
    needed = amounts_of(wanted)
    fixed = (controller_of(pod) or {}).get("kind") == "DaemonSet"
    largest = ledger.largest_for(pod.get("spec") or {}, needed, fixed)
    if largest is None:
        return None
    node, room = largest
    targets, _ = _range(vpa, pod, bounds)
    changed: Sizes = {}
    notes = []
    for resource in RESOURCES:
        over = needed[resource] - room.get(resource, needed[resource])
        total = sum(size for key, size in targets.items() if key[1] == resource)
        if over <= 0 or over >= total:
            # Nothing has to be capped, or not even an empty recommendation would fit.
            continue
        changed.update({key: size * (total - over) // total for key, size in targets.items() if key[1] == resource})
        notes.append(
            f"{shown(resource, needed[resource])} of {resource} capped at {shown(resource, room[resource])}, "
            f"the most that the largest node, {node}, can hold"
        )
    if not changed:
        return None
    smaller = with_targets(vpa, changed)
    return smaller, sized(pod, resources_for_pod(smaller, pod, bounds)[0]), tuple(notes)


def _squeezed(
    vpa: ObjectView,
    pod: ObjectView,
    bounds: NamespaceBounds,
    targets: Sizes,
    least: Sizes,
    resources: tuple[str, ...],
    holds: Holds,
) -> tuple[ObjectView, ObjectView, Sizes] | None:
    """The pod with as much of these resources as fits, and all of the others; None if not even the minimum fits."""

    def trial(part: int) -> tuple[ObjectView, ObjectView, Sizes]:
        sizes = {
            key: least[key] + (size - least[key]) * part // (1 << STEPS) if key[1] in resources else size
            for key, size in targets.items()
        }
        made = with_targets(vpa, {key: size for key, size in sizes.items() if size != targets[key]})
        return made, sized(pod, resources_for_pod(made, pod, bounds)[0]), sizes

    if all(least[key] >= size for key, size in targets.items() if key[1] in resources):
        return None
    best = trial(0)
    if not holds(best[1]):
        return None
    low, high = 0, 1 << STEPS
    while high - low > 1:
        middle = (low + high) // 2
        tried = trial(middle)
        if holds(tried[1]):
            low, best = middle, tried
        else:
            high = middle
    return best
