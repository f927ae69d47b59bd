"""Sends container events of VMs to all followers of the runtime's event stream."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

CREATED, STARTED, STOPPED, DELETED = range(4)
"""The types of container events, numbered as in CRI."""
_WAITING = 1024


@dataclass(frozen=True)
class Notice:
    container_id: str
    sandbox_id: str
    kind: int
    at_ns: int


class Notices:
    def __init__(self) -> None:
        self._followers: set[asyncio.Queue[Notice]] = set()

    def post(self, notice: Notice) -> None:
        for queue in self._followers:
            # A follower that does not read finds the changes in the next list.
            with contextlib.suppress(asyncio.QueueFull):
                queue.put_nowait(notice)

    async def follow(self) -> AsyncIterator[Notice]:
        with self._queue() as queue:
            while True:
                yield await queue.get()

    @contextlib.contextmanager
    def _queue(self) -> Iterator[asyncio.Queue[Notice]]:
        queue: asyncio.Queue[Notice] = asyncio.Queue(_WAITING)
        self._followers.add(queue)
        try:
            yield queue
        finally:
            self._followers.discard(queue)
