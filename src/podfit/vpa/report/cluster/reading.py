"""Reads workloads from a cluster page by page, and skips kinds that may not be read."""

from __future__ import annotations

from collections.abc import Callable

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import NODE, POD, Kind
from podfit.api.status import ApiError
from podfit.client import Client
from podfit.vpa.observe.caches import PAGE, WELL_KNOWN
from podfit.vpa.report.cluster.workloads import Key, Workload, gathered

Note = Callable[[str], None]


async def listed(client: Client, kind: Kind, namespace: str, **query: str) -> list[Object]:
    """All objects of a kind. If the list expires between two pages, it is read again from the start."""
    for attempt in (0, 1):
        try:
            return await _pages(client, kind, namespace, query, PAGE if attempt == 0 else 0)
        except ApiError as error:
            if error.code != 410 or attempt:
                raise
    raise AssertionError


async def _pages(client: Client, kind: Kind, namespace: str, query: dict[str, str], page: int) -> list[Object]:
    found: list[Object] = []
    more = ""
    while True:
        parameters = {**query, **({"limit": str(page)} if page else {}), **({"continue": more} if more else {})}
        answer = await client.list(kind, namespace, **parameters)
        found += answer.get("items") or []
        more = (answer.get("metadata") or {}).get("continue") or ""
        if not more:
            return found


async def read_workloads(client: Client, namespace: str, note: Note) -> dict[Key, Workload]:
    """Reads pods and controllers. Pods must be readable; if a kind of controllers is not, its pods are grouped by the
    owners that they name."""
    pods = await listed(client, POD, namespace)
    controllers: dict[str, list[Object]] = {}
    for name, kind in WELL_KNOWN.items():
        try:
            controllers[name] = await listed(client, kind, namespace)
        except ApiError as error:
            if error.code not in (403, 404):
                raise
            note(f"{kind.plural} cannot be read ({error}): their pods are sized under the owners they name")
    return gathered(pods, controllers)


async def largest_node(client: Client) -> dict[str, int]:
    """The capacity of the largest node in millicores and bytes, which no container can exceed. Empty if nodes cannot be
    read."""
    try:
        nodes = await listed(client, NODE, "")
    except ApiError:
        return {}
    sizes = [(node.get("status") or {}).get("capacity") or {} for node in nodes]
    cpu = [Quantity.parse(size["cpu"]).milli for size in sizes if "cpu" in size]
    memory = [Quantity.parse(size["memory"]).value for size in sizes if "memory" in size]
    return {**({"cpu": max(cpu)} if cpu else {}), **({"memory": max(memory)} if memory else {})}
