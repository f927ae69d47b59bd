"""The JSON patch that sets a new pod's resources, and the annotations that describe it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity
from podfit.vpa.model.changing.boost import annotation_key, annotation_value, boost_container
from podfit.vpa.model.changing.jsonpatch import Patch, add, annotate, container_patch
from podfit.vpa.model.changing.rolling import note_policy
from podfit.vpa.model.fitting.container_resources import ContainerResources, resources_for_pod
from podfit.vpa.model.fitting.limitranges import NO_BOUNDS, NamespaceBounds
from podfit.vpa.model.objects.pods import containers, limits_of, requests_of
from podfit.vpa.model.objects.policy import RESOURCES, container_policy, removes_limits, scaling_off, update_mode

UPDATES = "vpaUpdates"
OBSERVED = "vpaObservedContainers"
NO_BOOSTS: Mapping[str, Quantity] = {}
Wanted = tuple[list[ContainerResources], dict[str, list[str]]]
"""The recommendation for each container of a pod, in order, and notes by container."""


def pod_patch(
    pod: ObjectView,
    vpa: ObjectView,
    bounds: NamespaceBounds = NO_BOUNDS,
    boost_enabled: bool = False,
    max_boost: Quantity | None = None,
    limited: Collection[str] = (),
    boosts: Mapping[str, Quantity] = NO_BOOSTS,
    known: Wanted | None = None,
) -> Patch:
    """All changes of the autoscaler to a new pod. Raises BoostError for an invalid boost.

    `limited` are the resources for which the pod's namespace requires limits. `boosts` is the CPU that containers may
    start with if their full boost does not fit. `known` is the recommendation, if it was computed before; it is not
    modified.
    """
    patch: Patch = []
    if (pod.get("metadata") or {}).get("annotations") is None:
        patch.append(add("/metadata/annotations", {}))
    resources, notes = _own(known) if known is not None else wanted_for(pod, vpa, bounds)
    updates = []
    for index, container in enumerate(containers(pod)):
        name = container.get("name") or ""
        if boost_enabled:
            if scaling_off(container_policy(vpa, name)):
                continue
            patch += _boost(pod, vpa, name, resources[index], boosts.get(name, max_boost))
        gone = _unlimited(container, vpa, resources[index], limited)
        changes, said = container_patch(container, index, resources[index], gone)
        if changes:
            patch += changes
            updates.append(f"container {index}: " + ", ".join([*notes.get(name, []), *said]))
    meta_name = (vpa.get("metadata") or {}).get("name") or ""
    if updates:
        patch.append(annotate(UPDATES, f"Pod resources updated by {meta_name}: " + "; ".join(updates)))
    observed = ", ".join(container.get("name") or "" for container in containers(pod))
    patch.append(annotate(OBSERVED, observed))
    return patch + note_policy(vpa)


def _unlimited(
    container: ObjectView, vpa: ObjectView, wanted: ContainerResources, limited: Collection[str]
) -> list[str]:
    """The limits to remove, if the policy removes limits from new pods. They are also deleted from `wanted`."""
    if not removes_limits(container_policy(vpa, container.get("name") or "")):
        return []
    standing = (container.get("resources") or {}).get("limits") or {}
    gone = [name for name in RESOURCES if name in wanted.requests and name not in limited]
    wanted.limits = {name: amount for name, amount in wanted.limits.items() if name not in gone}
    return [name for name in gone if name in standing]


def _own(known: Wanted) -> Wanted:
    return [ContainerResources(dict(sizes.requests), dict(sizes.limits)) for sizes in known[0]], known[1]


def wanted_for(pod: ObjectView, vpa: ObjectView, bounds: NamespaceBounds) -> Wanted:
    """The resources that the pod's containers should get; empty in mode Off."""
    if update_mode(vpa) == "Off":
        return [ContainerResources() for _ in containers(pod)], {}
    return resources_for_pod(vpa, pod, bounds)


def _boost(pod: ObjectView, vpa: ObjectView, name: str, wanted: ContainerResources, most: Quantity | None) -> Patch:
    """Raises the container's CPU, and stores its original resources in an annotation."""
    if boost_container(pod, vpa, name, wanted, most) is None:
        return []
    return [annotate(annotation_key(name), annotation_value(requests_of(pod, name), limits_of(pod, name)))]
