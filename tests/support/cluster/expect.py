"""Waits for expected states by watching objects rather than by sleeping."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.client.rest import Client

PATIENCE_S = 30.0


async def becomes(
    client: Client,
    kind: Kind,
    namespace: str,
    name: str,
    true: Callable[[Object | None], bool],
    patience_s: float = PATIENCE_S,
) -> Object | None:
    """Waits until `true` returns true for the object (None: it does not exist), and returns the object."""
    seen: Object | None = None
    selector = f"metadata.name={name}"

    async def follow() -> Object | None:
        nonlocal seen
        listed = await client.list(kind, namespace, fieldSelector=selector)
        items = listed.get("items") or []
        seen = items[0] if items else None
        if true(seen):
            return seen
        revision = listed["metadata"]["resourceVersion"]
        async with aclosing(client.watch(kind, namespace, fieldSelector=selector, resourceVersion=revision)) as events:
            async for event, obj in events:
                seen = None if event == "DELETED" else obj
                if true(seen):
                    return seen
        raise AssertionError("the watch ended")

    try:
        return await asyncio.wait_for(follow(), patience_s)
    except TimeoutError:
        raise AssertionError(f"{kind.kind} {namespace}/{name} never became so; last seen: {seen}") from None


async def all_become(
    client: Client,
    kind: Kind,
    namespace: str,
    true: Callable[[list[Object]], bool],
    patience_s: float = PATIENCE_S,
    **query: str,
) -> list[Object]:
    """Waits until `true` returns true for the collection, and returns it."""
    seen: dict[str, Object] = {}

    async def follow() -> list[Object]:
        listed = await client.list(kind, namespace, **query)
        seen.update({item["metadata"]["uid"]: item for item in listed.get("items") or []})
        if true(list(seen.values())):
            return list(seen.values())
        revision = listed["metadata"]["resourceVersion"]
        async with aclosing(client.watch(kind, namespace, resourceVersion=revision, **query)) as events:
            async for event, obj in events:
                if event == "DELETED":
                    seen.pop(obj["metadata"]["uid"], None)
                else:
                    seen[obj["metadata"]["uid"]] = obj
                if true(list(seen.values())):
                    return list(seen.values())
        raise AssertionError("the watch ended")

    try:
        return await asyncio.wait_for(follow(), patience_s)
    except TimeoutError:
        shown = [(entry["metadata"]["name"], entry.get("status")) for entry in seen.values()]
        raise AssertionError(f"{kind.plural} in {namespace} never became so; last seen: {shown}") from None
