"""The resources that one pod's containers should have: the capped recommendation, and limits in proportion to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from podfit.api.objects import ObjectView
from podfit.vpa.model.fitting.capping import Notes, capped_for_pod
from podfit.vpa.model.fitting.limitranges import NO_BOUNDS, NamespaceBounds
from podfit.vpa.model.fitting.limits import proportional_limits
from podfit.vpa.model.fitting.machines import is_machine, whole_vcpus
from podfit.vpa.model.objects.pods import ResourceList, containers, limits_of, requests_of
from podfit.vpa.model.objects.policy import CPU, container_policy, controls_limits, recommendation


@dataclass(slots=True)
class ContainerResources:
    """The resources of one container. Empty lists leave it unchanged."""

    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)


def resources_for_pod(
    vpa: ObjectView, pod: ObjectView, bounds: NamespaceBounds = NO_BOUNDS
) -> tuple[list[ContainerResources], Notes]:
    """The resources in the order of the pod's containers, with notes for its annotation."""
    found = capped_for_pod(vpa, pod, bounds) if recommendation(vpa) is not None else None
    recommended, notes = found or ([], {})
    targets = {entry.container: entry.target for entry in reversed(recommended)}
    default = (bounds.container.default if bounds.container else None) or {}
    results = []
    for container in containers(pod):
        name = container.get("name") or ""
        requests, limits = requests_of(pod, name), limits_of(pod, name)
        made = ContainerResources()
        if name in targets:
            made.requests = dict(targets[name])
            if controls_limits(container_policy(vpa, name)):
                made.limits, said = proportional_limits(limits, requests, targets[name], default)
                if said:
                    notes.setdefault(name, []).extend(said)
                if is_machine(pod) and CPU in made.requests and CPU in made.limits:
                    same = requests.get(CPU) == limits.get(CPU)
                    made.requests[CPU], made.limits[CPU] = whole_vcpus(made.requests[CPU], made.limits[CPU], same)
        results.append(made)
    return results, notes
