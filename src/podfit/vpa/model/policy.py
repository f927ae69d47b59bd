"""What a VerticalPodAutoscaler object says: modes, container policies, recommendation. Reading only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]

CPU, MEMORY = "cpu", "memory"
RESOURCES = (CPU, MEMORY)
MODES = ("Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace", "Auto")
EVICTING_MODES = ("Recreate", "Auto", "InPlaceOrRecreate", "InPlace")
IN_PLACE_MODES = ("InPlaceOrRecreate", "InPlace")


def update_mode(vpa: Object) -> str:
    """Recreate unless the object says otherwise."""
    policy = (vpa.get("spec") or {}).get("updatePolicy") or {}
    return policy.get("updateMode") or "Recreate"


def container_policies(vpa: Object) -> list[Object]:
    return ((vpa.get("spec") or {}).get("resourcePolicy") or {}).get("containerPolicies") or []


def container_policy(vpa: Object, container: str) -> Object:
    """The policy that names the container, else the one for `*`; of several equal ones the first, or the last `*`."""
    fallback: Object = {}
    for policy in container_policies(vpa):
        name = policy.get("containerName")
        if name == container:
            return policy
        if name == "*":
            fallback = policy
    return fallback


def scaling_off(policy: Object) -> bool:
    return policy.get("mode") == "Off"


def controls_limits(policy: Object) -> bool:
    """Whether limits follow requests; the alternative is RequestsOnly."""
    return (policy.get("controlledValues") or "RequestsAndLimits") != "RequestsOnly"


def controlled_resources(policy: Object) -> tuple[str, ...]:
    """cpu and memory, unless a list was given: then what of them it names, even if that is nothing."""
    named = policy.get("controlledResources")
    return RESOURCES if named is None else tuple(name for name in named if name in RESOURCES)


def recommendation(vpa: Object) -> Object | None:
    return (vpa.get("status") or {}).get("recommendation")
