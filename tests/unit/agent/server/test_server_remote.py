"""Exec between a process and a client: bytes, sizes, exit codes, and which side closes first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podfit.agent.runtimes.fake.streams import FakeStream
from podfit.streaming.remote import RESIZE, STDERR, STDIN, STDOUT, converse, exit_status, failure_status

PATIENCE_S = 10.0
BOTH = frozenset((STDOUT, STDERR))


class Client:
    def __init__(self) -> None:
        self.inbox: asyncio.Queue[tuple[int, bytes | None] | None] = asyncio.Queue()
        self.seen: list[tuple[int, bytes]] = []
        self.status: dict[str, Any] | None = None

    async def receive(self) -> tuple[int, bytes | None] | None:
        return await self.inbox.get()

    async def send(self, channel: int, data: bytes) -> None:
        self.seen.append((channel, data))

    async def finish(self, status: dict[str, Any]) -> None:
        self.status = status


async def talk(client: Client, stream: FakeStream, **options: Any) -> None:
    await asyncio.wait_for(converse(client, stream, options.pop("wanted", BOTH), **options), PATIENCE_S)


async def test_output_comes_before_the_exit_code() -> None:
    client, stream = Client(), FakeStream()
    stream.feed(STDOUT, b"out")
    stream.feed(STDERR, b"err")
    stream.finish(3)
    await talk(client, stream)
    assert client.seen == [(STDOUT, b"out"), (STDERR, b"err")]
    assert client.status == exit_status(3)


async def test_unrequested_streams_are_not_forwarded() -> None:
    client, stream = Client(), FakeStream()
    stream.feed(STDOUT, b"out")
    stream.feed(STDERR, b"err")
    stream.finish(0)
    await talk(client, stream, wanted=frozenset((STDERR,)))
    assert client.seen == [(STDERR, b"err")]


async def test_input_and_its_end_reach_the_process() -> None:
    client, stream = Client(), FakeStream()
    stream._echo = True
    client.inbox.put_nowait((STDIN, b"hello"))
    client.inbox.put_nowait((STDIN, None))
    await talk(client, stream)
    assert client.seen == [(STDOUT, b"hello")]
    assert client.status == {"metadata": {}, "status": "Success"}


async def test_a_size_reaches_the_terminal_and_nonsense_does_no_harm() -> None:
    client, stream = Client(), FakeStream()
    stream._echo = True
    for data in (b"{", b"[]", b'{"Width":"x"}', b'{"Width":120,"Height":40}'):
        client.inbox.put_nowait((RESIZE, data))
    client.inbox.put_nowait((STDIN, None))
    await talk(client, stream)
    assert stream.size == (120, 40)


async def test_a_client_that_leaves_ends_the_process() -> None:
    client, stream = Client(), FakeStream()
    client.inbox.put_nowait(None)
    await talk(client, stream)
    assert await stream.wait() == 137
    assert client.status is None


async def test_attach_reports_success_however_the_container_ended() -> None:
    client, stream = Client(), FakeStream()
    stream.finish(9)
    await talk(client, stream, attached=True)
    assert client.status == {"metadata": {}, "status": "Success"}


@pytest.mark.parametrize("code", [1, 126, 137, 255])
def test_exit_codes_are_reported_in_kubectls_format(code: int) -> None:
    status = exit_status(code)
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": str(code)}]


def test_failures_are_internal_errors() -> None:
    status = failure_status("no such thing")
    assert status["message"] == "Internal error occurred: no such thing"
    assert status["code"] == 500
