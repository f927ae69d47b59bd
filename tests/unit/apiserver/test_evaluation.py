"""Long evaluations do not block the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from podfit.api.cel.cost.budget import Interrupted, YieldPolicy
from podfit.apiserver.writing import evaluation
from podfit.apiserver.writing.evaluation import Result
from podfit.kit.concurrency.worker_threads import WorkerThreads


async def evaluated(work: Callable[[YieldPolicy], Result]) -> Result:
    threads = WorkerThreads()
    try:
        return await evaluation.evaluated(threads, 0, work)
    finally:
        threads.close()


def test_a_short_evaluation_stays_on_the_loop() -> None:
    assert asyncio.run(evaluated(lambda yielding: threading.current_thread().name)) == threading.current_thread().name


def test_a_long_evaluation_does_not_block_the_event_loop() -> None:
    loop_turned, calls = threading.Event(), []

    def work(yielding: YieldPolicy) -> str:
        calls.append(threading.current_thread().name)
        while not loop_turned.is_set():
            yielding.step()
        return "done"

    async def scene() -> str:
        task = asyncio.create_task(evaluated(work))
        await asyncio.sleep(0)
        loop_turned.set()
        return await task

    assert asyncio.run(scene()) == "done"
    assert calls[0] == threading.current_thread().name and calls[1].startswith("worker")


def test_work_that_cannot_be_interrupted_does_not_start_on_the_loop() -> None:
    def work(yielding: YieldPolicy) -> str:
        yielding.heavy()
        return threading.current_thread().name

    assert asyncio.run(evaluated(work)).startswith("worker")


def test_an_evaluation_without_end_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "LONGEST_S", 0.02)

    def work(yielding: YieldPolicy) -> None:
        while True:
            yielding.step()

    with pytest.raises(Interrupted):
        asyncio.run(evaluated(work))
