"""Long operations on one pod that no pass waits for: stops, pulls, hooks, power changes, migrations. Each name has one
task."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from podfit.kit.concurrency.tasks import Tasks


class Jobs:
    __slots__ = ("_running",)

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, work: Coroutine[Any, Any, None], tasks: Tasks) -> None:
        """Runs `work` until it ends; replaces another job of that name."""
        task = self._running[name] = tasks.start(work, name)
        task.add_done_callback(lambda ended: self._ended(name, ended))

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        if self._running.get(name) is task:
            del self._running[name]

    def running(self, name: str) -> bool:
        task = self._running.get(name)
        return task is not None and not task.done()

    def any_running(self, prefix: str) -> bool:
        return any(name.startswith(prefix) and not task.done() for name, task in self._running.items())

    async def wait(self, name: str, timeout_s: float | None = None) -> None:
        """Waits until the job has ended, or the timeout."""
        if (task := self._running.get(name)) is not None:
            await asyncio.wait({task}, timeout=timeout_s)

    def cancel(self, prefix: str = "") -> None:
        for name, task in list(self._running.items()):
            if name.startswith(prefix):
                task.cancel()
                self._running.pop(name, None)

    def __len__(self) -> int:
        return len(self._running)
