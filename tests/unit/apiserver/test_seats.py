"""Requests in flight of one client: how many are executed, how many wait, and which are rejected."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.apiserver.front.seats import Seats, is_endless
from podfit.apiserver.request import Request
from podfit.apiserver.routes import parse


def request(client: str = "a", method: str = "GET") -> Request:
    return Request(method, "/", {}, {}, client=client)


async def seated(seats: Seats, asked: Request) -> bool:
    """Whether it gets a seat at once; if not, it keeps waiting."""
    waiting = asyncio.ensure_future(seats.take(asked))
    await asyncio.sleep(0)
    return waiting.done()


async def test_beyond_its_seats_a_client_waits_for_itself() -> None:
    seats = Seats()
    got = [await seated(seats, request()) for _ in range(seats.reads.seats + 1)]
    assert got == [True] * seats.reads.seats + [False]
    assert await seated(seats, request("b"))


async def test_reads_do_not_take_the_seats_of_writes() -> None:
    seats = Seats()
    for _ in range(seats.reads.seats + 5):
        await seated(seats, request())
    assert await seated(seats, request(method="PATCH"))


async def test_a_released_seat_goes_to_a_waiting_request() -> None:
    seats = Seats()
    first = request()
    await seats.take(first)
    for _ in range(seats.reads.seats - 1):
        await seats.take(request())
    waiting = asyncio.ensure_future(seats.take(request()))
    await asyncio.sleep(0)
    seats.give_back(first)
    await waiting


async def test_a_request_cancelled_while_a_seat_is_released_leaves_nothing_behind() -> None:
    seats = Seats()
    held = [request() for _ in range(seats.reads.seats)]
    for item in held:
        await seats.take(item)
    waiting = asyncio.ensure_future(seats.take(request()))
    await asyncio.sleep(0)
    waiting.cancel()
    for item in held:
        seats.give_back(item)
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled() and seats.reads.in_flight == 0
    await asyncio.wait_for(seats.take(request()), 5)


def test_streams_take_no_seat() -> None:
    endless = ("/api/v1/pods?watch=1", "/api/v1/namespaces/a/pods/b/log", "/api/v1/namespaces/a/pods/b/exec")
    routes = [parse("GET", path.partition("?")[0], {"watch": ["1"]} if "watch" in path else {}) for path in endless]
    assert all(map(is_endless, routes))
    assert not is_endless(parse("GET", "/api/v1/pods", {})) and not is_endless(None)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(("take", "give", "cancel"))), max_size=60))
def test_nothing_is_left_when_everybody_has_gone(moves: list[tuple[str, str]]) -> None:
    async def run() -> None:
        seats = Seats()
        taken: dict[str, list[tuple[Request, asyncio.Future[None]]]] = {name: [] for name in "abc"}
        for client, move in moves:
            mine = taken[client]
            if move == "take":
                asked = request(client)
                mine.append((asked, asyncio.ensure_future(seats.take(asked))))
            elif mine:
                asked, turn = mine.pop(0)
                await end(seats, asked, turn, move == "cancel")
            await asyncio.sleep(0)
            assert all(line.seated <= seats.reads.seats for line in seats._lines.values())
        for mine in taken.values():
            for asked, turn in mine:
                await end(seats, asked, turn, False)
        assert seats.reads.in_flight == 0 and not seats._lines

    asyncio.run(run())


async def end(seats: Seats, asked: Request, turn: asyncio.Future[None], cancelled: bool) -> None:
    if cancelled and turn.cancel():
        await asyncio.gather(turn, return_exceptions=True)
        return
    await turn
    seats.give_back(asked)
