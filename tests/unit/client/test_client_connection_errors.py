"""A server that does not respond is reported in kubectl's words, without a Python traceback."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from podfit.api.registry.kinds import NAMESPACE, NODE, POD
from podfit.api.status import ApiError
from podfit.client import Client
from podfit.client.cache import Cache
from podfit.client.kubeconfig import Access, BadKubeconfig
from podfit.client.transport import Unreachable
from podfit.kit.clock import FakeClock

PYTHON = ("ssl:", "Errno", "Connect call", "Error", "Exception", "(", "_ssl.c", "None")
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def message_of(server: str, timeout_s: float = 5.0) -> str:
    client = Client(Access(server).transport(timeout_s=timeout_s))
    try:
        with pytest.raises((Unreachable, ApiError)) as raised:
            await client.list(POD, "default")
    finally:
        await client.close()
    text = str(raised.value)
    assert not [word for word in PYTHON if word in text], text
    return text


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[int]:
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def abort(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.close()


async def chat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"220 mail.example.com ESMTP\r\n\r\n")
    await writer.drain()
    writer.close()


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def web_page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>")
    await writer.drain()
    writer.close()


async def test_a_refused_connection_is_named_as_kubectl_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    expected = f"The connection to the server 127.0.0.1:{port} was refused - did you specify the right host or port?"
    assert await message_of(f"https://127.0.0.1:{port}") == expected


async def test_an_unknown_host_is_named() -> None:
    words = await message_of("https://nowhere.invalid:6443")
    assert words == "Unable to connect to the server: lookup nowhere.invalid: no such host"


async def test_a_server_without_tls_is_named() -> None:
    async with serving(chat) as port:
        assert (await message_of(f"https://127.0.0.1:{port}")).startswith("Unable to connect to the server: tls: ")


async def test_a_server_that_hangs_up_is_named_with_the_request() -> None:
    async with serving(abort) as port:
        words = await message_of(f"http://127.0.0.1:{port}")
    assert words.endswith(f"127.0.0.1:{port} closed the connection during GET /api/v1/namespaces/default/pods")


async def test_a_silent_server_is_named_with_the_time_waited() -> None:
    async with serving(silence) as port:
        words = await message_of(f"http://127.0.0.1:{port}", timeout_s=0.1)
    assert words.endswith("did not answer GET /api/v1/namespaces/default/pods within 0.1s")


async def test_another_protocol_on_the_port_is_named() -> None:
    async with serving(chat) as port:
        assert "does not speak HTTP" in await message_of(f"http://127.0.0.1:{port}")


async def test_a_web_page_is_not_an_answer_of_an_api_server() -> None:
    async with serving(web_page) as port:
        assert "not a Kubernetes API server" in await message_of(f"http://127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("access", "words"),
    [
        (Access("https://x", ca=b"no certificate"), "certificate-authority of the server https://x is not"),
        (Access("https://x", cert=b"a", key=b"b"), "client-certificate and client-key are not"),
    ],
)
def test_certificates_that_cannot_be_used_are_named(access: Access, words: str) -> None:
    with pytest.raises(BadKubeconfig, match=words):
        access.transport()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"a: b: c", "is not YAML: line 1: mapping values are not allowed here"),
        (b"\xff\xfe", "is not a text file"),
        (b"contexts: []", "no current-context is set"),
    ],
)
def test_a_broken_kubeconfig_is_named_by_line(tmp_path: Path, text: bytes, words: str) -> None:
    from podfit.client.kubeconfig import load

    (tmp_path / "config").write_bytes(text)
    with pytest.raises(BadKubeconfig, match=words):
        load(str(tmp_path / "config"))


async def test_of_many_watches_one_reports_that_the_server_is_away(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = Client(Access(f"http://127.0.0.1:{port}").transport())
    tried = asyncio.Semaphore(0)
    caches = [Cache(client, kind, clock=PausedClock(tried)) for kind in (POD, NODE, NAMESPACE)]
    with caplog.at_level(logging.INFO, "podfit.client.cache"):
        running = [asyncio.create_task(cache.run()) for cache in caches]
        for _ in caches:
            await tried.acquire()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    await client.close()
    [warning] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.startswith(f"The connection to the server 127.0.0.1:{port} was refused")
    assert len(caplog.records) == 3


class PausedClock(FakeClock):
    """Records each pause, and lets none end."""

    def __init__(self, tried: asyncio.Semaphore) -> None:
        super().__init__()
        self._tried = tried

    async def sleep(self, seconds: float) -> None:
        self._tried.release()
        await asyncio.Event().wait()
