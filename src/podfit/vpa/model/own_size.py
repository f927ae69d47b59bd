"""A pod's own requests as its recommendation, for as long as nothing is known about it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.vpa.model.pods import containers, requests_of, resource_list
from podfit.vpa.model.policy import container_policy, controlled_resources, recommending, scaling_off

Object = Mapping[str, Any]


def at_own_size(vpa: Object, pod: Object) -> Object:
    """The autoscaler as if it recommended what the pod asks for: its policy then says how much of that is allowed.

    A resource that a container does not ask for gets the policy's minimum, if there is one.
    """
    entries = []
    for container in containers(pod):
        name = container.get("name") or ""
        policy = container_policy(vpa, name)
        if scaling_off(policy):
            continue
        asked = {**resource_list(policy.get("minAllowed")), **requests_of(pod, name)}
        target = {one: asked[one].as_written() for one in controlled_resources(policy) if one in asked}
        if target:
            entries.append({"containerName": name, "target": target})
    return recommending(vpa, {"containerRecommendations": entries})
