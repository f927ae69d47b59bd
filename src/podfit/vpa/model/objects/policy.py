"""Reads a VerticalPodAutoscaler object: mode, container policies, recommendation."""

from __future__ import annotations

from podfit.api.objects import ObjectView

PROVIDED, CPU_STARVED = "RecommendationProvided", "CPUStarved"
CPU, MEMORY = "cpu", "memory"
RESOURCES = (CPU, MEMORY)
MODES = ("Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace", "Auto")
EVICTING_MODES = ("Recreate", "Auto", "InPlaceOrRecreate", "InPlace")
IN_PLACE_MODES = ("InPlaceOrRecreate", "InPlace")


def update_mode(vpa: ObjectView) -> str:
    """The update mode; Recreate by default."""
    policy = (vpa.get("spec") or {}).get("updatePolicy") or {}
    return policy.get("updateMode") or "Recreate"


def container_policies(vpa: ObjectView) -> list[ObjectView]:
    return ((vpa.get("spec") or {}).get("resourcePolicy") or {}).get("containerPolicies") or []


def container_policy(vpa: ObjectView, container: str) -> ObjectView:
    """The policy that names the container, else the one for `*`. Of several policies for a name the first applies, for
    `*` the last."""
    fallback: ObjectView = {}
    for policy in container_policies(vpa):
        name = policy.get("containerName")
        if name == container:
            return policy
        if name == "*":
            fallback = policy
    return fallback


def scaling_off(policy: ObjectView) -> bool:
    return policy.get("mode") == "Off"


def controls_limits(policy: ObjectView) -> bool:
    """Whether limits follow requests, as they do unless controlledValues is RequestsOnly.

    RequestsWithoutLimits removes limits from new pods. A running pod cannot lose its limits, so there they follow, too.
    """
    return (policy.get("controlledValues") or "RequestsAndLimits") != "RequestsOnly"


def removes_limits(policy: ObjectView) -> bool:
    return policy.get("controlledValues") == "RequestsWithoutLimits"


def controlled_resources(policy: ObjectView) -> tuple[str, ...]:
    """The resources that the policy names in its list, without unsupported ones; cpu and memory if it has no list."""
    named = policy.get("controlledResources")
    return RESOURCES if named is None else tuple(name for name in named if name in RESOURCES)


def recommendation(vpa: ObjectView) -> ObjectView | None:
    """The autoscaler's recommendation; None if its condition RecommendationProvided is False, whatever the status
    contains.

    Without this condition the recommendation is valid.
    """
    status = vpa.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == PROVIDED and condition.get("status") == "False":
            return None
    found: ObjectView | None = status.get("recommendation")
    return found


def recommending(vpa: ObjectView, given: ObjectView) -> ObjectView:
    """The autoscaler with this recommendation instead of the one in its status."""
    status = vpa.get("status") or {}
    others = [condition for condition in status.get("conditions") or () if condition.get("type") != PROVIDED]
    return {**vpa, "status": {**status, "conditions": others, "recommendation": given}}


def container_recommendations(vpa: ObjectView) -> list[ObjectView]:
    """One entry for each container with a recommendation."""
    return (recommendation(vpa) or {}).get("containerRecommendations") or []


def recommends_for(vpa: ObjectView, pod: ObjectView) -> bool:
    """Whether any of the pod's containers has a recommendation."""
    names = {container.get("name") for container in (pod.get("spec") or {}).get("containers") or ()}
    return any(entry.get("containerName") in names and entry.get("target") for entry in container_recommendations(vpa))


def has_boost(vpa: ObjectView) -> bool:
    """Whether the object has a startup boost, for the pod or for a container."""
    if (vpa.get("spec") or {}).get("startupBoost") is not None:
        return True
    return any(policy.get("startupBoost") is not None for policy in container_policies(vpa))
