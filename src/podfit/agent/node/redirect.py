"""Lets pods reach an API server on loopback at the address of Service `kubernetes`."""

from __future__ import annotations

import asyncio
import logging

from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.kit.concurrency.tasks import Tasks

log = logging.getLogger(__name__)


class ApiRedirect:
    def __init__(self, runtime: Runtime, tasks: Tasks) -> None:
        self._runtime, self._tasks = runtime, tasks
        self._redirecting: asyncio.Task[None] | None = None

    def begin(self, address: str, port: int, target: str, target_port: int) -> None:
        self._redirecting = self._tasks.start(self._redirect(address, port, target, target_port), "redirect")

    async def done(self) -> None:
        """Waits for the redirect in progress, if there is one."""
        if self._redirecting is not None:
            await asyncio.wait({self._redirecting})

    async def _redirect(self, address: str, port: int, target: str, target_port: int) -> None:
        try:
            await self._runtime.redirect(address, port, target, target_port)
        except RuntimeFailure as error:
            log.warning("pods cannot reach the API server: %s", error)
