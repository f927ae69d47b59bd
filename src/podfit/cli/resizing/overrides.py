"""Detects autoscalers that will overwrite the size set manually on a pod."""

from __future__ import annotations

from collections.abc import Iterable

from podfit.api.objects import Object
from podfit.api.registry.kinds import VPA
from podfit.api.status import ApiError
from podfit.cli.resizing.plans import PlannedResize
from podfit.cli.sizing.recommended import target_pods
from podfit.client import Client
from podfit.vpa.model.objects.policy import container_policy, controlled_resources, scaling_off, update_mode

PASSIVE = ("Off", "Initial")
"""Modes in which running pods are not changed."""
FROZEN = "podfit.dev/freeze"

Key = tuple[str, str]


async def override_warnings(client: Client, plans: Iterable[PlannedResize]) -> dict[Key, list[str]]:
    """A warning for each pod whose new size will be overwritten by an autoscaler in an active mode."""
    found: dict[Key, list[str]] = {}
    changing = [plan for plan in plans if plan.changes]
    for namespace in {plan.key[0] for plan in changing}:
        for vpa in await _acting(client, namespace):
            mine = {pod["metadata"]["uid"] for pod in await target_pods(client, vpa)}
            for plan in changing:
                if plan.pod["metadata"]["uid"] in mine and (words := overwrites(vpa, plan)):
                    found.setdefault(plan.key, []).append(words)
    return found


async def _acting(client: Client, namespace: str) -> list[Object]:
    try:
        listed = await client.list(VPA, namespace)
    except ApiError as error:
        if error.code in (403, 404):
            # No autoscalers in this cluster, or no permission to see them: that does not prevent a resize.
            return []
        raise
    frozen = (vpa for vpa in listed["items"] if FROZEN not in (vpa["metadata"].get("annotations") or {}))
    return [vpa for vpa in frozen if update_mode(vpa) not in PASSIVE]


def overwrites(vpa: Object, plan: PlannedResize) -> str:
    """The warning, "" if the autoscaler does not control this container or these resources."""
    policy = container_policy(vpa, plan.container)
    touched = {change.resource for change in plan.changes}
    controlled = [
        resource for resource in ("cpu", "memory") if resource in touched and resource in controlled_resources(policy)
    ]
    if scaling_off(policy) or not controlled:
        return ""
    name = vpa["metadata"]["name"]
    return (
        f"vpa/{name} (mode {update_mode(vpa)}) controls {' and '.join(controlled)} of container {plan.container} and "
        f"will overwrite this size; set its updateMode to Off, or change its minAllowed and maxAllowed"
    )
