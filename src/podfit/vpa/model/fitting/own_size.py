"""Uses a pod's own requests as its recommendation until the recommender has one. Pure."""

from __future__ import annotations

from podfit.api.objects import ObjectView
from podfit.vpa.model.objects.pods import containers, requests_of, resource_list
from podfit.vpa.model.objects.policy import container_policy, controlled_resources, recommending, scaling_off


def at_own_size(vpa: ObjectView, pod: ObjectView) -> ObjectView:
    """The autoscaler as if it recommended the pod's own requests, so that its policy caps them.

    A resource without a request gets the policy's minimum, if there is one.
    """
    entries = []
    for container in containers(pod):
        name = container.get("name") or ""
        policy = container_policy(vpa, name)
        if scaling_off(policy):
            continue
        requested = {**resource_list(policy.get("minAllowed")), **requests_of(pod, name)}
        target = {
            resource: requested[resource].as_written()
            for resource in controlled_resources(policy)
            if resource in requested
        }
        if target:
            entries.append({"containerName": name, "target": target})
    return recommending(vpa, {"containerRecommendations": entries})
