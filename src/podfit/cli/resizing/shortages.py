"""Words the shortage of a node for a resize as one line, computed from the Node and its Pods in the API."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.pods.room import missing, room_on
from podfit.api.registry.kinds import NODE, POD
from podfit.api.resize.progress import pending
from podfit.api.resize.verdicts import Deferred, Infeasible, Shortage
from podfit.api.status import ApiError
from podfit.cli.printing.amounts import amount_text
from podfit.client import Client
from podfit.client.transport import Unreachable


async def shortage_of(client: Client, pod: Object) -> str:
    """`needs 300m cpu, node n1 has 120m free`; "" if nothing is short, or if reading the node is forbidden."""
    node_name, waiting = pod["spec"].get("nodeName"), pending(pod)
    if not node_name or waiting is None or not isinstance(waiting.verdict, Deferred | Infeasible):
        return ""
    try:
        node = await client.get(NODE, "", node_name)
        pods = (await client.list(POD, fieldSelector=f"spec.nodeName={node_name}"))["items"]
    except (ApiError, Unreachable):
        return ""
    return shortage_on(pod, node, pods)


def shortage_on(pod: Object, node: Object, pods: list[Object]) -> str:
    found = missing(pod, room_on(node, pods, pod))
    return shortage_text(found[0], node["metadata"]["name"]) if found else ""


def shortage_text(short: Shortage, node: str) -> str:
    needs = f"needs {amount_text(short.resource, short.requested)} {short.resource}, node {node} has"
    if short.requested > short.capacity:
        return f"{needs} {amount_text(short.resource, short.capacity)} in all"
    return f"{needs} {amount_text(short.resource, short.capacity - short.used)} free"
