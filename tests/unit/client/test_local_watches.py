"""A watch on a server in this process: lines handed over as they come about, and what they say told beforehand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from podfit.api.kinds import POD
from podfit.client.rest import Client
from podfit.client.transport import Ask, SharedLines, Stream


def line_of(word: str, name: str) -> bytes:
    return msgspec.json.encode({"type": word, "object": {"metadata": {"name": name}}}) + b"\n"


class Local:
    """Yields chunks; before each chunk it hands the lines that stand before it to what it was lent."""

    def __init__(self, *steps: tuple[list[bytes], bytes]) -> None:
        self._steps, self.refused = steps, 0
        self._sink: Callable[[bytes], bool] | None = None

    @asynccontextmanager
    async def stream(self, ask: Ask) -> AsyncIterator[Stream]:
        yield Stream(200, self._chunks(), lend=self._lend)

    def _lend(self, sink: Callable[[bytes], bool]) -> None:
        self._sink = sink

    async def _chunks(self) -> AsyncIterator[bytes]:
        for handed, chunk in self._steps:
            for line in handed:
                assert self._sink is not None
                self.refused += not self._sink(line)
            yield chunk


async def followed(server: Local, at_once: Callable[[str, Any], None]) -> None:
    client = Client(server)  # type: ignore[arg-type]
    async for word, obj in client.follow(POD, "", {}, at_once):
        at_once(word, obj)


async def test_lines_handed_over_and_lines_read_come_in_one_order() -> None:
    heard: list[str] = []
    one, two = line_of("ADDED", "a"), line_of("MODIFIED", "b")
    three, four = line_of("ADDED", "c"), line_of("DELETED", "d")
    await followed(Local(([one], two), ([three], four)), lambda word, obj: heard.append(obj["metadata"]["name"]))
    assert heard == ["a", "b", "c", "d"]


async def test_a_line_may_come_in_pieces() -> None:
    heard: list[str] = []
    whole = line_of("ADDED", "a") + line_of("ADDED", "b")
    steps = [([], whole[at : at + 7]) for at in range(0, len(whole), 7)]
    await followed(Local(*steps), lambda word, obj: heard.append(obj["metadata"]["name"]))  # type: ignore[arg-type]
    assert heard == ["a", "b"]


async def test_a_reader_that_fails_is_left_to_find_out_by_itself() -> None:
    def fails(word: str, obj: Any) -> None:
        raise ValueError

    server = Local(([line_of("ADDED", "a")], b""))
    await followed(server, fails)
    assert server.refused == 1


async def test_an_error_is_never_handed_over() -> None:
    server = Local(([line_of("ERROR", "a")], b""))
    await followed(server, lambda word, obj: None)
    assert server.refused == 1


async def test_a_line_that_was_told_is_not_decoded() -> None:
    lines, spec = SharedLines(), {"nodeName": "n"}
    obj = {"metadata": {"name": "a", "managedFields": [{}]}, "spec": spec}
    lines.tell(b"no JSON", "ADDED", obj)
    event = lines.decode(b"no JSON")
    assert event == {"type": "ADDED", "object": {"metadata": {"name": "a"}, "spec": spec}}
    assert event["object"]["spec"] is spec
    assert "managedFields" in obj["metadata"]
