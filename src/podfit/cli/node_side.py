"""What only a podfit node can tell: a pod's four states and its story. Other nodes: None, and the caller says so."""

from __future__ import annotations

from typing import Any

from podfit.api.status import ApiError, Object
from podfit.client import Client
from podfit.client.transport import Unreachable

STATES = ("desired", "allocated", "actuated", "actual")


async def _ask(client: Client, what: str, pod: Object) -> Any:
    node, meta = pod["spec"].get("nodeName"), pod["metadata"]
    if not node:
        return None
    try:
        path = f"/api/v1/nodes/{node}/proxy/podfit/{what}/{meta['namespace']}/{meta['name']}"
        answer = await client.raw("GET", path)
    except (ApiError, Unreachable):
        return None
    return answer if isinstance(answer, dict) else None


async def story(client: Client, pod: Object) -> list[Object] | None:
    told = await _ask(client, "story", pod)
    return None if told is None else list(told.get("story") or ())


async def states(client: Client, pod: Object) -> tuple[list[Object], bool]:
    """A row for each container (name, desired, allocated, actuated, actual), and whether the node itself told."""
    told = await _ask(client, "states", pod)
    if told is None:
        return from_status(pod), False
    rows = list(told["containers"])
    whole = told.get("pod") or {}
    if whole.get("desired"):
        rows.insert(0, {"name": "(pod)", **whole})
    return rows, True


def from_status(pod: Object) -> list[Object]:
    """From the API alone: Actuated is the node's secret there, Allocated shows requests only."""
    status = pod.get("status") or {}
    known = {
        one["name"]: one for key in ("initContainerStatuses", "containerStatuses") for one in status.get(key) or ()
    }
    rows = []
    for container in (*(pod["spec"].get("initContainers") or ()), *(pod["spec"].get("containers") or ())):
        seen = known.get(container["name"]) or {}
        held = seen.get("allocatedResources")
        rows.append(
            {
                "name": container["name"],
                "desired": container.get("resources") or {},
                "allocated": None if held is None else {"requests": held},
                "actuated": None,
                "actual": seen.get("resources"),
            }
        )
    return rows
