"""Reads of a client with many in flight begin after those of others, one per iteration of the event loop."""

from __future__ import annotations

import asyncio

from podfit.apiserver.front.turns import Turns
from podfit.apiserver.request import Request


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def request(client: str, method: str = "GET") -> Request:
    return Request(method, "/", {}, {}, client=client)


def turns() -> tuple[Turns, Clock]:
    clock = Clock()
    return Turns(clock), clock  # type: ignore[arg-type]


async def begin(tested: Turns, begun: list[str], asked: Request, name: str = "") -> None:
    await tested.enter(asked)
    begun.append(name or asked.client)


def start(tested: Turns, begun: list[str], client: str, count: int) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(begin(tested, begun, request(client))) for _ in range(count)]


async def test_a_client_that_is_alone_begins_everything_at_once() -> None:
    tested, clock = turns()
    await tested.enter(request("a"))
    clock.now = 2.0
    begun: list[str] = []
    start(tested, begun, "a", 8)
    await asyncio.sleep(0)
    assert len(begun) == 8


async def test_beside_others_a_client_begins_one_read_per_iteration() -> None:
    tested, _ = turns()
    begun: list[str] = []
    await asyncio.gather(*start(tested, begun, "a", 4), *start(tested, begun, "b", 4))
    assert begun[:2] == ["a", "b"] and [set(begun[at : at + 2]) for at in (2, 4, 6)] == [{"a", "b"}] * 3


async def test_reads_wait_for_a_client_with_fewer_requests_and_go_on_when_it_is_done() -> None:
    tested, _ = turns()
    small, begun = request("small", "PATCH"), list[str]()
    await tested.enter(small)
    tasks = start(tested, begun, "flood", 4)
    for _ in range(5):
        await asyncio.sleep(0)
    assert begun == ["flood"], "the first one was alone when it began"
    tested.leave(small)
    await asyncio.gather(*tasks)
    assert len(begun) == 4


async def test_no_client_waits_for_a_request_that_turned_out_to_be_long() -> None:
    tested, _ = turns()
    small, begun = request("small"), list[str]()
    await tested.enter(small)
    tasks = start(tested, begun, "flood", 4)
    await asyncio.sleep(0)
    tested.lengthen(small)
    await asyncio.gather(*tasks)
    tested.leave(small)
    assert len(begun) == 4


async def test_a_request_whose_body_does_not_arrive_is_not_waited_for() -> None:
    tested, clock = turns()
    await tested.enter(request("slow", "POST"))
    clock.now = 0.5
    begun: list[str] = []
    await asyncio.gather(*start(tested, begun, "other", 4))
    assert len(begun) == 4


async def test_writes_begin_at_once() -> None:
    tested, _ = turns()
    await tested.enter(request("small"))
    begun: list[str] = []
    writes = [asyncio.create_task(begin(tested, begun, request("many", "POST"))) for _ in range(4)]
    await asyncio.sleep(0)
    assert all(write.done() for write in writes)


async def test_a_client_that_leaves_while_it_waits_is_forgotten() -> None:
    tested, _ = turns()
    small, begun = request("small"), list[str]()
    await tested.enter(small)
    tasks = start(tested, begun, "flood", 3)
    await asyncio.sleep(0)
    for task in tasks[1:]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    tested.leave(small)
    assert tested._present == {"flood": 1} and not tested._waiting
