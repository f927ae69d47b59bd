"""A watch on a server in this process: events are passed as they occur, in order with the lines that are read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from podfit.api.registry.kinds import POD
from podfit.client.rest import Client
from podfit.client.transport import ClientRequest, Stream


def line_of(word: str, name: str) -> bytes:
    return msgspec.json.encode({"type": word, "object": {"metadata": {"name": name}}}) + b"\n"


class Local:
    """Yields chunks; before each chunk it hands the objects of these names to what it was lent."""

    def __init__(self, *steps: tuple[list[str], bytes]) -> None:
        self._steps = steps
        self._taker: Callable[[str, Any], None] | None = None

    @asynccontextmanager
    async def stream(self, ask: ClientRequest) -> AsyncIterator[Stream]:
        yield Stream(200, self._chunks(), subscribe=self._subscribe)

    def _subscribe(self, taker: Callable[[str, Any], None]) -> None:
        self._taker = taker

    async def _chunks(self) -> AsyncIterator[bytes]:
        for handed, chunk in self._steps:
            for name in handed:
                assert self._taker is not None
                self._taker("ADDED", {"metadata": {"name": name}})
            yield chunk


async def followed(server: Local, at_once: Callable[[str, Any], None]) -> None:
    client = Client(server)  # type: ignore[arg-type]
    async for word, obj in client.follow(POD, "", {}, at_once):
        at_once(word, obj)


async def test_pushed_and_pulled_events_arrive_in_one_order() -> None:
    heard: list[str] = []
    server = Local((["a"], line_of("MODIFIED", "b")), (["c"], line_of("DELETED", "d")))
    await followed(server, lambda word, obj: heard.append(obj["metadata"]["name"]))
    assert heard == ["a", "b", "c", "d"]


async def test_a_line_may_come_in_pieces() -> None:
    heard: list[str] = []
    whole = line_of("ADDED", "a") + line_of("ADDED", "b")
    steps = [([], whole[at : at + 7]) for at in range(0, len(whole), 7)]
    await followed(Local(*steps), lambda word, obj: heard.append(obj["metadata"]["name"]))  # type: ignore[arg-type]
    assert heard == ["a", "b"]
