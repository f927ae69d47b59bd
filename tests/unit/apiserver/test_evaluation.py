"""Long evaluations leave the event loop alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from podfit.api.cel.cost.budget import Interrupted, Pace
from podfit.apiserver.writing import evaluation
from podfit.apiserver.writing.evaluation import Result
from podfit.kit.concurrency.aside import Aside


async def evaluated(work: Callable[[Pace], Result]) -> Result:
    aside = Aside()
    try:
        return await evaluation.evaluated(aside, 0, work)
    finally:
        aside.close()


def test_a_short_evaluation_stays_on_the_loop() -> None:
    assert asyncio.run(evaluated(lambda pace: threading.current_thread().name)) == threading.current_thread().name


def test_a_long_evaluation_goes_on_while_the_loop_does_other_things() -> None:
    loop_turned, calls = threading.Event(), []

    def work(pace: Pace) -> str:
        calls.append(threading.current_thread().name)
        while not loop_turned.is_set():
            pace.step()
        return "done"

    async def scene() -> str:
        task = asyncio.create_task(evaluated(work))
        await asyncio.sleep(0)
        loop_turned.set()
        return await task

    assert asyncio.run(scene()) == "done"
    assert calls[0] == threading.current_thread().name and calls[1].startswith("aside")


def test_what_cannot_be_interrupted_is_not_begun_on_the_loop() -> None:
    def work(pace: Pace) -> str:
        pace.heavy()
        return threading.current_thread().name

    assert asyncio.run(evaluated(work)).startswith("aside")


def test_an_evaluation_without_end_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "LONGEST_S", 0.02)

    def work(pace: Pace) -> None:
        while True:
            pace.step()

    with pytest.raises(Interrupted):
        asyncio.run(evaluated(work))
