"""Limits of new pods that the autoscaler removes, limits that must stay, and limits that cap a request.

`controlledValues: RequestsWithoutLimits` implements the design document's statement that the autoscaler sets no limits.
In Kubernetes a limit cannot be removed from a running pod, and a namespace may require limits; other limits are removed
when a pod is created.
"""

from __future__ import annotations

from collections.abc import Iterable

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity
from podfit.vpa.model.objects.pods import containers, limits_of, resource_list
from podfit.vpa.model.objects.policy import RESOURCES, container_policy, container_recommendations, controls_limits

_RANGES = ("max", "default", "maxLimitRequestRatio")
OTHER_VALUES = "with RequestsAndLimits the limit would follow, with RequestsWithoutLimits new pods would have none"


def required_limits(namespace: str, limit_ranges: Iterable[ObjectView], quotas: Iterable[ObjectView]) -> frozenset[str]:
    """The resources for which a LimitRange or a ResourceQuota of the namespace requires limits."""
    found: set[str] = set()
    for limit_range in limit_ranges:
        if (limit_range.get("metadata") or {}).get("namespace") == namespace:
            for item in (limit_range.get("spec") or {}).get("limits") or ():
                if item.get("type") in ("Container", "Pod"):
                    found.update(name for field in _RANGES for name in item.get(field) or ())
    for quota in quotas:
        if (quota.get("metadata") or {}).get("namespace") == namespace:
            hard = (quota.get("spec") or {}).get("hard") or {}
            found.update(name.removeprefix("limits.") for name in hard if name.startswith("limits."))
    return frozenset(found & set(RESOURCES))


def held_down(vpa: ObjectView, pod: ObjectView) -> list[str]:
    """Recommendations that a pod's limits prevent, because the policy does not change limits; one phrase for each."""
    targets = {entry.get("containerName"): entry for entry in container_recommendations(vpa)}
    found = []
    for name in (container.get("name") or "" for container in containers(pod)):
        if name not in targets or controls_limits(container_policy(vpa, name)):
            continue
        target, limits = resource_list(targets[name].get("target")), limits_of(pod, name)
        for resource in RESOURCES:
            wanted, limit = target.get(resource), limits.get(resource)
            if wanted is not None and limit is not None and wanted.milli > limit.milli:
                found.append(_phrase(name, resource, wanted, limit))
    return found


def _phrase(container: str, resource: str, wanted: Quantity, limit: Quantity) -> str:
    return f"container {container}: {wanted} of {resource} is recommended, its limit is {limit}"
