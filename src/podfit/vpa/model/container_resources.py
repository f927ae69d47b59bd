"""The resources one pod's containers should have: the capped recommendation and the limits that go with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from podfit.vpa.model.capping import Notes, capped_for_pod
from podfit.vpa.model.limitranges import NO_BOUNDS, NamespaceBounds
from podfit.vpa.model.limits import proportional_limits
from podfit.vpa.model.machines import is_machine, whole_vcpus
from podfit.vpa.model.pods import ResourceList, containers, limits_of, requests_of
from podfit.vpa.model.policy import CPU, container_policy, controls_limits, recommendation

Object = Mapping[str, Any]


@dataclass(slots=True)
class ContainerResources:
    """Empty lists: leave the container as it is."""

    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)


def resources_for_pod(
    vpa: Object, pod: Object, bounds: NamespaceBounds = NO_BOUNDS
) -> tuple[list[ContainerResources], Notes]:
    """In the order of the pod's containers, with notes for its annotation."""
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
