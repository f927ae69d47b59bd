"""Reads what only podfit's nodes serve: a pod's four states and the record of its resizes. Results are None for other
nodes; the caller reports that.
"""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.resize.states import actual_of, allocated_of, desired_of
from podfit.api.status import ApiError
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
    answer = await _ask(client, "story", pod)
    return None if answer is None else list(answer.get("story") or ())


async def states(client: Client, pod: Object) -> tuple[list[Object], bool]:
    """A row for each container (name, desired, allocated, actuated, actual), and whether the node reported it."""
    answer = await _ask(client, "states", pod)
    if answer is None:
        return from_status(pod), False
    rows = list(answer["containers"])
    whole = answer.get("pod") or {}
    if whole.get("desired"):
        rows.insert(0, {"name": "(pod)", **whole})
    return rows, True


def from_status(pod: Object) -> list[Object]:
    """The states as far as the API has them: it does not expose Actuated, and of Allocated only the requests."""
    desired, allocated, actual = desired_of(pod), allocated_of(pod), actual_of(pod)
    return [
        {
            "name": name,
            "desired": sizes,
            "allocated": allocated.containers.get(name),
            "actuated": None,
            "actual": actual.containers.get(name),
        }
        for name, sizes in desired.containers.items()
    ]
