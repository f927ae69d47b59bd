"""Evaluates expressions that clients supply, without blocking the event loop.

An evaluation starts on the loop, where nearly all evaluations end within a millisecond. One that takes longer is
restarted in a thread that yields to the loop. A cost limit bounds the evaluation, and a deadline bounds its duration.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from podfit.api.cel.cost.budget import Interrupted, YieldPolicy
from podfit.kit.concurrency.worker_threads import LARGE, WorkerThreads

Result = TypeVar("Result")
ON_LOOP_S = 0.005
LONGEST_S = 10.0
_REST_S = 0.0001


class _TooLong(Exception):
    """The evaluation takes too long for the event loop."""


class _OnLoop(YieldPolicy):
    def __init__(self) -> None:
        self._until = time.monotonic() + ON_LOOP_S

    def step(self) -> None:
        if time.monotonic() > self._until:
            raise _TooLong

    def heavy(self) -> None:
        raise _TooLong


class _OnThread(YieldPolicy):
    def __init__(self) -> None:
        self._until = time.monotonic() + LONGEST_S

    def step(self) -> None:
        if time.monotonic() > self._until:
            raise Interrupted
        # A sleeping thread does not hold the interpreter lock.
        time.sleep(_REST_S)


async def evaluated(threads: WorkerThreads, size: int, work: Callable[[YieldPolicy], Result]) -> Result:
    """The result of `work`, which has no side effects and may be called twice; `size` as for `WorkerThreads.run`."""
    if size < LARGE:
        try:
            return work(_OnLoop())
        except _TooLong:
            pass
    return await threads.run(LARGE, lambda: work(_OnThread()))
