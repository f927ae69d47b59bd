"""Refuses to start a second agent with the same node name: two agents would run every pod twice."""

from __future__ import annotations

import asyncio
import ssl

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError
from podfit.client.kubeconfig import Access
from podfit.client.rest import Client
from podfit.client.transport import Unreachable

_NODE = kind_named("Node")
_TIMEOUT_S = 3.0


class NodeInUse(Exception):
    """Another agent serves this node."""


async def refuse_second(access: Access, node: str) -> None:
    """Raises NodeInUse if a server at the Node's address has a certificate of the cluster for that node.

    Any other server there proves nothing; otherwise a pod could keep the agent from starting. If the API server is
    unreachable, the agent starts anyway: it has pods to manage."""
    client = Client(access.transport(f"podfit-agent-{node}", timeout_s=_TIMEOUT_S))
    try:
        place = _place(await client.get(_NODE, "", node))
    except (ApiError, Unreachable):
        return
    finally:
        await client.close()
    if place is not None and access.ca and await _proves_to_be(node, place, access.ca):
        where = f"{place[0]}:{place[1]}"
        raise NodeInUse(
            f"node {node} is already served by an agent at {where}: stop that agent, or choose another --node-name"
        )


def _place(node: Object) -> tuple[str, int] | None:
    status = node.get("status") or {}
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
    addresses = [address["address"] for address in status.get("addresses") or () if address.get("type") == "InternalIP"]
    return (addresses[0], port) if addresses and port else None


async def _proves_to_be(node: str, place: tuple[str, int], ca: bytes) -> bool:
    tls = ssl.create_default_context(cadata=ca.decode())
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            _, writer = await asyncio.open_connection(*place, ssl=tls, server_hostname=node)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
