"""Waits, told by the kernel, until memory that stands in a resize's way has been given back."""

from __future__ import annotations

from collections.abc import Callable

from podfit.agent.decide.actuate import MemoryCheck
from podfit.agent.observe import Snapshot
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.base import Runtime, RuntimeFailure
from podfit.kit.tasks import Tasks


class MemoryWaits:
    def __init__(self, runtime: Runtime, tasks: Tasks, kick: Callable[[str], None]) -> None:
        self._runtime, self._tasks, self._kick = runtime, tasks, kick

    def watch(self, record: PodRecord, snapshot: Snapshot, below: tuple[MemoryCheck, ...]) -> None:
        self.forget(record)
        wanted = [
            (snapshot.running[check.container].id if check.container else "", check.limit)
            for check in below
            if not check.container or check.container in snapshot.running
        ]
        record.memory_wait = self._tasks.start(self._wait(record, wanted), f"memory-{record.uid}")

    @staticmethod
    def forget(record: PodRecord) -> None:
        if record.memory_wait is not None:
            record.memory_wait.cancel()
            record.memory_wait = None

    async def _wait(self, record: PodRecord, wanted: list[tuple[str, int]]) -> None:
        for container_id, limit in wanted:
            try:
                await self._runtime.memory_below(record.uid, container_id, limit)
            except RuntimeFailure:
                # The container ended: what remains is decided by the next pass.
                break
        record.memory_wait = None
        record.failed, record.retry_at = None, 0.0
        record.story.tell("memory given back", "usage fell below the limit asked for")
        self._kick(record.uid)
