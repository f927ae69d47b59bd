"""Fits a recommendation to one pod: the LimitRanges of pod and container, the policy, and the limits in force.

Updater and admission both use it, so that they give a pod the same resources.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity
from podfit.vpa.model.fitting.bounds import cap_to_limits, cap_to_policy
from podfit.vpa.model.fitting.limitranges import NO_BOUNDS, Bounds, NamespaceBounds
from podfit.vpa.model.fitting.limits import boundary_request, proportional_limit, scale
from podfit.vpa.model.objects.pods import ResourceList, containers, limits_of, requests_of, resource_list
from podfit.vpa.model.objects.policy import CPU, MEMORY, RESOURCES, container_policy, controls_limits, recommendation
from podfit.vpa.model.objects.recommended import Recommended, from_object

Notes = dict[str, list[str]]
ZERO = Quantity(0)
_FIELDS = ("upper", "target", "lower")


def capped_for_pod(
    vpa: ObjectView, pod: ObjectView, bounds: NamespaceBounds = NO_BOUNDS
) -> tuple[list[Recommended], Notes] | None:
    """The recommendation for the pod's containers, with notes on every capped target; None if there is none.

    The policy is applied after the LimitRange and overrides it.
    """
    recommended = recommendation(vpa)
    if recommended is None and (vpa.get("spec") or {}).get("resourcePolicy") is None:
        return None
    entries = [from_object(entry) for entry in (recommended or {}).get("containerRecommendations") or ()]
    if bounds.pod is not None and entries:
        given = entries
        entries = _within_pod(entries, pod, bounds.pod)
        entries = entries if bounds.all_containers else _only_given(entries, given)
    names = {container.get("name") for container in containers(pod)}
    results, notes = [], {}
    for entry in entries:
        if entry.container not in names:
            continue
        fitted, said = _within_container(entry, vpa, pod, bounds.container)
        results.append(fitted)
        if said:
            notes[entry.container] = said
    return results, notes


def _only_given(entries: list[Recommended], given: list[Recommended]) -> list[Recommended]:
    """Omits containers and resources that have no recommendation, so that they stay unchanged."""
    # Containers that were only included with their requests come after the others.
    pairs = zip(entries, given, strict=False)
    return [replace(entry, **{field: _known(entry, own, field) for field in _FIELDS}) for entry, own in pairs]


def _known(entry: Recommended, own: Recommended, field: str) -> Any:
    return {name: amount for name, amount in getattr(entry, field).items() if name in getattr(own, field)}


def _within_container(
    entry: Recommended, vpa: ObjectView, pod: ObjectView, bounds: Bounds | None
) -> tuple[Recommended, list[str]]:
    policy = container_policy(vpa, entry.container)
    least, most = resource_list(policy.get("minAllowed")), resource_list(policy.get("maxAllowed"))
    requests, limits = requests_of(pod, entry.container), limits_of(pod, entry.container)

    def fit(resources: ResourceList) -> tuple[ResourceList, list[str]]:
        resources = {name: amount for name, amount in resources.items() if name}
        resources, range_notes = _within_limit_range(resources, requests, limits, bounds)
        resources, policy_notes = cap_to_policy(resources, least, most)
        limit_notes: list[str] = []
        if not controls_limits(policy):
            resources, limit_notes = cap_to_limits(resources, limits)
        return resources, range_notes + policy_notes + limit_notes

    target, notes = fit(entry.target)
    return replace(entry, target=target, lower=fit(entry.lower)[0], upper=fit(entry.upper)[0]), notes


def _within_limit_range(
    resources: ResourceList, requests: ResourceList, limits: ResourceList, bounds: Bounds | None
) -> tuple[ResourceList, list[str]]:
    if bounds is None:
        return resources, []
    capped, notes = dict(resources), []
    default = bounds.default or {}
    for resource in sorted(capped):
        if resource not in RESOURCES:
            continue
        now = (requests.get(resource), limits.get(resource))
        if bounds.min is not None:
            floor = bounds.min.get(resource, ZERO)
            least = boundary_request(resource, *now, floor, default.get(resource)) or ZERO
            least = max(least, floor)
            if least and capped[resource] < least:
                capped[resource] = least
                notes.append(f"{resource} capped to fit Min in container LimitRange")
        if bounds.max is not None:
            most = boundary_request(resource, *now, bounds.max.get(resource, ZERO), default.get(resource))
            if most and capped[resource] > most:
                capped[resource] = most
                notes.append(f"{resource} capped to fit Max in container LimitRange")
    return capped, notes


def _within_pod(entries: list[Recommended], pod: ObjectView, bounds: Bounds) -> list[Recommended]:
    """Scales all containers proportionally until the sum of their limits fits the pod's LimitRange."""
    known = {entry.container for entry in entries}
    names = [container.get("name") or "" for container in containers(pod)]
    # Containers without a recommendation are included with their requests.
    missing = [(name, requests_of(pod, name)) for name in names if name not in known]
    entries = entries + [Recommended(name, requests, {}, {}, {}) for name, requests in missing if requests]
    for field in _FIELDS:
        for resource in (CPU, MEMORY):
            entries = _scaled_to_pod(entries, pod, bounds, field, resource)
    return entries


def _scaled_to_pod(
    entries: list[Recommended], pod: ObjectView, bounds: Bounds, field: str, resource: str
) -> list[Recommended]:
    least = (bounds.min or {}).get(resource, ZERO)
    most = (bounds.max or {}).get(resource, ZERO)
    default = (bounds.default or {}).get(resource, ZERO)
    limits, total = ZERO, ZERO
    # A recommendation for a container that is not in the pod is ignored.
    present = {container.get("name") or "" for container in containers(pod)}
    for entry in (entry for entry in entries if entry.container in present):
        amount = getattr(entry, field).get(resource, ZERO)
        limit, _ = proportional_limit(
            resource,
            limits_of(pod, entry.container).get(resource),
            requests_of(pod, entry.container).get(resource),
            amount,
            default,
        )
        limits += limit or ZERO
        total += amount
    if (least <= min(total, limits) and (not most or most >= limits)) or not limits:
        return entries
    if least > total:
        base, result, up = total, least, resource == CPU
    else:
        base, result, up = limits, most if most and most < limits else least, False

    def resized(entry: Recommended) -> Recommended:
        resources: ResourceList = getattr(entry, field)
        if not resources or entry.container not in present:
            return entry
        made = scale(resource, resources.get(resource, ZERO), base, result, up)[0]
        changed: Any = {field: {**resources, resource: made}}
        return replace(entry, **changed)

    return [resized(entry) for entry in entries] if base else entries
