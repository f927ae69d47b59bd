"""Resizes that are applied in the kernel and not yet confirmed by the container runtime.

Shared by the runtimes of a node, and empty for runtimes that are the only writers of their containers' cgroups. A pod's
resize is complete when none of its confirmations is outstanding: all were given, or a refusal was handled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Confirmations:
    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._refused: set[str] = set()

    def outstanding(self, uid: str) -> bool:
        return uid in self._waiting or uid in self._refused

    def refused(self, uid: str) -> bool:
        """Whether the runtime refused the kernel's values, after which the kernel has the previous values again."""
        return uid in self._refused

    async def wait(self, uid: str) -> None:
        """Waits until the runtime has answered or its call has timed out."""
        if (waiting := self._waiting.get(uid)) is not None:
            await asyncio.wait({waiting})

    def begin(self, uid: str, answer: asyncio.Task[None], ended: Callable[[], None]) -> None:
        """Registers a resize. `answer` ends when the runtime answers; `ended` is called then."""

        def end(_: asyncio.Task[None]) -> None:
            del self._waiting[uid]
            ended()

        self._waiting[uid] = answer
        answer.add_done_callback(end)

    def refuse(self, uid: str) -> None:
        self._refused.add(uid)

    def settle(self, uid: str) -> None:
        """Called when the refusal has been handled, or the pod is gone."""
        self._refused.discard(uid)
