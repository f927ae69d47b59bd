"""A cache keeps only a part of an object if that saves memory, but not of an object that other components share
anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from podfit.api.objects import Object, freeze
from podfit.api.registry.kinds import POD
from podfit.client.cache import Cache
from podfit.kit.clock import FakeClock


def pod(name: str) -> Object:
    return {"metadata": {"name": name, "namespace": "d", "resourceVersion": "2"}, "spec": {"nodeName": "n"}}


class Server:
    """Lists one pod, and sends a watch event about another."""

    def __init__(self, shares: bool) -> None:
        self.shares, self.news = shares, freeze(pod("new"))
        self.sent = asyncio.Event()

    async def list(self, *_: Any, **query: str) -> Object:
        return {"metadata": {"resourceVersion": "1"}, "items": [pod("old")]}

    async def follow(self, *_: Any) -> AsyncIterator[tuple[str, Object]]:
        yield "ADDED", self.news
        self.sent.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize("shares", [True, False])
async def test_objects_of_a_watch_are_trimmed_unless_they_are_shared(shares: bool) -> None:
    server = Server(shares)
    cache = Cache(server, POD, clock=FakeClock(), trim=lambda obj: {"metadata": obj["metadata"]})  # type: ignore[arg-type]
    task = asyncio.ensure_future(cache.run())
    await server.sent.wait()
    listed, watched = cache.get("d", "old"), cache.get("d", "new")
    assert listed is not None and "spec" not in listed
    assert watched == (server.news if shares else {"metadata": server.news["metadata"]})
    assert (watched is server.news) == shares
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
