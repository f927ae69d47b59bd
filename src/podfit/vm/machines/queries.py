"""Queries that QEMU itself answers, each of which holds a thread until it does.

A QEMU that is stopped, or whose disk does not respond, never answers. libvirt waits for it without a limit, so that
repeated queries of a few such VMs would take all threads, and with them the runtime's other VMs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

Result = TypeVar("Result")
ANSWER_S = 8.0
"""The time that QEMU may take for an answer."""


class Unanswered(Exception):
    """QEMU has not answered; the message says for how long."""


class Queries:
    """Queries of all VMs, by UUID."""

    def __init__(self, answer_s: float = ANSWER_S) -> None:
        self._answer_s = answer_s
        self._pending: dict[str, dict[asyncio.Future[Any], float]] = {}

    async def ask(self, uuid: str, query: Callable[[], Awaitable[Result]]) -> Result:
        """The answer to a query. Raises Unanswered if there is none in time, and at once, without a query, while an
        earlier one is overdue."""
        loop = asyncio.get_running_loop()
        self._check(uuid, loop.time())
        future = asyncio.ensure_future(query())
        self._pending.setdefault(uuid, {})[future] = loop.time()
        future.add_done_callback(partial(self._ended, uuid))
        await asyncio.wait({future}, timeout=self._answer_s)
        if not future.done():
            self._check(uuid, loop.time())
        return await future

    def _check(self, uuid: str, now: float) -> None:
        waited = now - min(self._pending.get(uuid, {}).values(), default=now)
        if waited >= self._answer_s:
            raise Unanswered(f"QEMU does not respond: libvirt has waited for its answer for {waited:.0f} s")

    def _ended(self, uuid: str, future: asyncio.Future[Any]) -> None:
        pending = self._pending[uuid]
        del pending[future]
        if not pending:
            del self._pending[uuid]
        if not future.cancelled():
            # The caller may have left.
            future.exception()
