"""A cache whose revision the server has compacted lists again, but not without a pause each time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from podfit.api.registry.kinds import POD
from podfit.api.status import ApiError
from podfit.client.cache import Cache
from podfit.kit.clock import FakeClock


def gone() -> ApiError:
    return ApiError(410, "Expired", "too old resource version")


class Server:
    """Lists at revision 1, 2, …; each watch sends `news` events, then an error that its revision is too old."""

    shares = False

    def __init__(self, news: int = 0, broken_lists: bool = False) -> None:
        self.lists, self.news, self.broken_lists = 0, news, broken_lists

    async def list(self, *_: Any, **query: str) -> dict[str, Any]:
        self.lists += 1
        if self.broken_lists and self.lists > 1:
            raise gone()
        return {"metadata": {"resourceVersion": f"{self.lists}0"}, "items": []}

    async def follow(
        self, kind: Any, namespace: str, query: dict[str, str], at_once: Any
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        await asyncio.sleep(0)
        for number in range(self.news):
            yield "BOOKMARK", {"metadata": {"resourceVersion": f"{query['resourceVersion']}{number}"}}
        raise gone()


async def lists_within(server: Server, steps: int) -> int:
    """How often it lists while no time passes."""
    clock = FakeClock()
    cache: Cache = Cache(server, POD, clock=clock)  # type: ignore[arg-type]
    task = asyncio.ensure_future(cache.run())
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return server.lists


@pytest.mark.parametrize("broken_lists", [False, True])
async def test_a_revision_that_is_dropped_at_once_is_not_requested_without_a_pause(broken_lists: bool) -> None:
    assert await lists_within(Server(broken_lists=broken_lists), 200) <= 2


async def test_a_watch_that_got_somewhere_lists_again_at_once() -> None:
    assert await lists_within(Server(news=1), 200) > 10


async def test_the_pause_ends_and_the_cache_lists_again() -> None:
    server, clock = Server(), FakeClock()
    cache: Cache = Cache(server, POD, clock=clock)  # type: ignore[arg-type]
    task = asyncio.ensure_future(cache.run())
    await cache.ready.wait()
    before = server.lists
    for _ in range(20):
        await clock.advance(6.0)
    assert server.lists > before
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
