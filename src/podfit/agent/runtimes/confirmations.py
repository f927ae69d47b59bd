"""Resizes that the kernel has and a runtime behind it has not answered yet.

Shared by the runtimes of a node, and empty for those that own their containers' cgroups alone. A pod's resize is
complete when nothing of it is outstanding: accepted, or refused and dealt with.
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
        """The runtime refused what the kernel had: the kernel has the former values again."""
        return uid in self._refused

    async def wait(self, uid: str) -> None:
        """Until the runtime has answered, or does not answer in time."""
        if (waiting := self._waiting.get(uid)) is not None:
            await asyncio.wait({waiting})

    def begin(self, uid: str, answer: asyncio.Task[None], ended: Callable[[], None]) -> None:
        """`answer` ends with the runtime's answer; `ended` is called when that is known here."""

        def end(_: asyncio.Task[None]) -> None:
            del self._waiting[uid]
            ended()

        self._waiting[uid] = answer
        answer.add_done_callback(end)

    def refuse(self, uid: str) -> None:
        self._refused.add(uid)

    def settle(self, uid: str) -> None:
        """The refusal has been dealt with, or the pod is gone."""
        self._refused.discard(uid)
