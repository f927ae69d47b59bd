"""Waits for the kernel to report that usage has fallen below a memory limit that could not be set."""

from __future__ import annotations

from podfit.agent.actuation import attempts
from podfit.agent.decide.resize.actuate import MemoryCheck
from podfit.agent.pods.observe import Snapshot
from podfit.agent.pods.record import PodRecord
from podfit.agent.queue import PassQueue
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.kit.concurrency.tasks import Tasks


class MemoryWaits:
    def __init__(self, runtime: Runtime, tasks: Tasks, queue: PassQueue) -> None:
        self._runtime, self._tasks, self._queue = runtime, tasks, queue

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
                # The container ended: the next pass decides what remains to be done.
                break
        record.memory_wait = None
        attempts.retry_now(record)
        record.story.add("memory given back", "usage fell below the requested limit")
        self._queue.enqueue(record.uid)
