"""Long work in slices: short requests go first, clients take turns, and no request waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from podfit.apiserver.front.long_responses import LongResponses
from podfit.apiserver.request import Request, User
from podfit.kit.clock import RealClock


def request(name: str = "a") -> Request:
    return Request("GET", "/", {}, {}, user=User(name))


def steps(log: list[str], word: str, count: int) -> Iterator[None]:
    for _ in range(count):
        log.append(word)
        yield


def lane(timeout_s: float = 60.0) -> LongResponses:
    """Each step is a slice."""
    return LongResponses(RealClock(), slice_s=0.0, timeout_s=timeout_s)


async def answer(tested: LongResponses, log: list[str], name: str, count: int) -> None:
    """As the server does it."""
    asked = request(name)
    tested.enter()
    try:
        await tested.run(asked, steps(log, name, count))
    finally:
        tested.leave(asked)


async def test_work_that_fits_into_a_slice_is_done_at_once() -> None:
    log: list[str] = []
    coroutine = LongResponses(RealClock(), slice_s=60.0).run(request(), steps(log, "a", 100))
    with pytest.raises(StopIteration):
        coroutine.send(None)
    assert len(log) == 100


async def test_clients_take_turns_whatever_each_has_waiting() -> None:
    tested, log = lane(), []
    await asyncio.gather(*(answer(tested, log, name, 9) for name in "aaab"))
    # The first slices run before any other client waits; from then on every second slice is b's.
    queued = "".join(log[4:])
    assert queued.count("b") == 8 and "bb" not in queued and "aaaa" not in queued[:14]


async def test_long_work_waits_while_a_short_request_is_answered() -> None:
    tested, log = lane(), []
    short = request("short")
    tested.enter()
    running = asyncio.ensure_future(answer(tested, log, "long", 3))
    for _ in range(50):
        await asyncio.sleep(0)
    assert log == ["long"]
    tested.leave(short)
    await running
    assert log == ["long"] * 3


async def test_short_requests_without_end_do_not_stop_long_work() -> None:
    tested, log = lane(timeout_s=0.0), []
    tested.enter()
    await answer(tested, log, "long", 5)
    assert len(log) == 5


async def test_the_turn_of_a_cancelled_client_passes_to_the_next_one() -> None:
    tested, log = lane(), []
    work = [asyncio.ensure_future(answer(tested, log, name, 50)) for name in "abc"]
    await asyncio.sleep(0)
    for leaving in work[:2]:
        leaving.cancel()
    await work[2]
    assert log.count("c") == 50


async def test_a_request_is_counted_as_short_once() -> None:
    tested = lane(timeout_s=0.0)
    asked = request()
    tested.enter()
    await tested.run(asked, steps([], "a", 3))
    tested.leave(asked)
    tested.leave(asked)
    assert tested._short == 0
