"""The requests of probes, and the messages of failed ones, against real servers on this machine."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.agent.probes import check as checkup
from podfit.agent.probes import grpc_health as grpchealth
from podfit.agent.probes.check import check
from podfit.agent.runtimes.fake.runtime import FakeRuntime

HOST = "127.0.0.1"
Answer = Callable[[bytes, Any], Awaitable[bytes]]


async def ask(probe: dict[str, Any]) -> str | None:
    return await check(FakeRuntime(), {"name": "c"}, probe, "id", HOST)


async def closed_port() -> int:
    server = await asyncio.start_server(lambda *_: None, HOST, 0)
    port = int(server.sockets[0].getsockname()[1])
    server.close()
    await server.wait_closed()
    return port


@asynccontextmanager
async def http_server(answer: bytes) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if answer:
            writer.write(answer)
            writer.close()
        else:
            await reader.read()
            writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    async with server:
        yield int(server.sockets[0].getsockname()[1])


@asynccontextmanager
async def health_server(answer: Answer | None) -> AsyncIterator[int]:
    """A gRPC server; `answer` None: without the health service."""
    grpc = pytest.importorskip("grpc")
    server = grpc.aio.server()
    if answer is not None:
        handler = grpc.unary_unary_rpc_method_handler(answer)
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler})]
        )
    port = server.add_insecure_port(f"{HOST}:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0)


# --- HTTP and TCP ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "wrong"),
    [
        (200, None),
        (399, None),
        (404, "HTTP probe failed with statuscode: 404"),
        (199, "HTTP probe failed with statuscode: 199"),
    ],
)
async def test_an_http_status_from_200_to_399_is_well(status: int, wrong: str | None) -> None:
    async with http_server(f"HTTP/1.1 {status} X\r\n\r\n".encode()) as port:
        assert await ask({"httpGet": {"port": port, "path": "/healthz"}}) == wrong


@asynccontextmanager
async def redirecting(answers: dict[str, str]) -> AsyncIterator[int]:
    """Responses by path: a status, or the target of a redirect."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        answer = answers[path]
        lines = [f"HTTP/1.1 {answer} X"] if answer.isdigit() else ["HTTP/1.1 302 Found", "X: y", f"location: {answer}"]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        writer.close()

    async with await asyncio.start_server(serve, HOST, 0) as server:
        yield int(server.sockets[0].getsockname()[1])


@pytest.mark.parametrize(
    ("answers", "wrong"),
    [
        ({"/": "/login?a=1", "/login?a=1": "200"}, None),
        ({"/": "/broken", "/broken": "500"}, "HTTP probe failed with statuscode: 500"),
        ({"/": "http://elsewhere.invalid/x"}, None),
        ({"/": "/"}, "stopped after 10 redirects"),
        ({"/": "304"}, None),
    ],
)
async def test_a_redirect_is_followed_on_the_same_host(answers: dict[str, str], wrong: str | None) -> None:
    async with redirecting(answers) as port:
        text = await ask({"httpGet": {"port": port}})
    assert text == wrong or (wrong is not None and text is not None and text.endswith(wrong))


async def test_a_refused_connection_is_worded_as_kubernetes_does() -> None:
    port = await closed_port()
    refused = f"dial tcp {HOST}:{port}: connect: connection refused"
    assert await ask({"tcpSocket": {"port": port}}) == refused
    assert await ask({"httpGet": {"port": port, "path": "x"}}) == f'Get "http://{HOST}:{port}/x": {refused}'


async def test_a_request_to_an_unresponsive_server_times_out() -> None:
    async with http_server(b"") as port:
        text = await ask({"httpGet": {"port": port}, "timeoutSeconds": 0.05})
    expected = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    assert text == f'Get "http://{HOST}:{port}/": {expected}'


async def test_a_port_without_a_number_is_named() -> None:
    assert await ask({"tcpSocket": {"port": "web"}}) == "couldn't find port: web"


# --- gRPC -----------------------------------------------------------------------------------------------------------


async def test_a_serving_service_is_healthy_and_is_checked_by_name() -> None:
    asked = []

    async def answer(request: bytes, context: Any) -> bytes:
        asked.append((request, dict(context.invocation_metadata())["user-agent"].split()[0]))
        return b"\x08\x01"

    async with health_server(answer) as port:
        assert await ask({"grpc": {"port": port, "service": "readiness"}}) is None
        assert await ask({"grpc": {"port": port, "service": ""}}) is None
    assert asked == [(b"\x0a\x09readiness", "kube-probe/1.36"), (b"", "kube-probe/1.36")]


@pytest.mark.parametrize(
    ("answer", "name"), [(b"\x08\x02", "NOT_SERVING"), (b"", "UNKNOWN"), (b"\x08\x03", "SERVICE_UNKNOWN")]
)
async def test_any_other_status_is_unhealthy(answer: bytes, name: str) -> None:
    async def answers(request: bytes, context: Any) -> bytes:
        return answer

    async with health_server(answers) as port:
        assert await ask({"grpc": {"port": port}}) == f'service unhealthy (responded with "{name}")'


async def test_the_error_for_a_server_without_the_health_protocol_says_so() -> None:
    async with health_server(None) as port:
        text = await ask({"grpc": {"port": port}})
    reported = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "
    assert text is not None and text.startswith(reported)


async def test_a_service_the_server_does_not_know_fails_with_its_code() -> None:
    async def unknown(request: bytes, context: Any) -> bytes:
        grpc = pytest.importorskip("grpc")
        await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        raise AssertionError

    async with health_server(unknown) as port:
        text = await ask({"grpc": {"port": port, "service": "x"}})
    assert text == "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"


async def test_a_hanging_health_check_times_out() -> None:
    async def hang(request: bytes, context: Any) -> bytes:
        await asyncio.Event().wait()
        return b""

    async with health_server(hang) as port:
        assert (
            await ask({"grpc": {"port": port}, "timeoutSeconds": 1}) == "timeout: health rpc did not complete within 1s"
        )


async def test_a_port_without_a_grpc_server_is_unhealthy() -> None:
    pytest.importorskip("grpc")
    port = await closed_port()
    text = await ask({"grpc": {"port": port}, "timeoutSeconds": 1})
    why = "context deadline exceeded"
    assert text == f'timeout: failed to connect service "{HOST}:{port}" within 1s: {why}'


async def test_a_node_without_grpcio_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "grpc":
            raise ImportError(name)
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    text = await grpchealth.check(HOST, 1, "", 1.0)
    assert text is not None and "grpcio is not installed" in text


@given(st.binary(max_size=40))
def test_any_bytes_are_read_as_some_status(answer: bytes) -> None:
    assert grpchealth._status(answer) >= 0


@given(st.integers(0, 1 << 40), st.binary(max_size=5))
def test_the_status_is_found_after_unknown_fields(status: int, other: bytes) -> None:
    unknown = b"\x12" + grpchealth._varint(len(other)) + other + b"\x1d" + bytes(4)
    assert grpchealth._status(unknown + b"\x08" + grpchealth._varint(status)) == status


@pytest.mark.parametrize(("seconds", "text"), [(1, "1s"), (60, "1m0s"), (3661, "1h1m1s")])
def test_durations_are_printed_as_go_does(seconds: int, text: str) -> None:
    assert grpchealth.go_seconds(seconds) == text


async def test_a_command_that_takes_too_long_is_worded_with_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def too_long(*_: object) -> tuple[int, str]:
        raise TimeoutError

    monkeypatch.setattr(checkup, "run_command", too_long)
    probe = {"exec": {"command": ["sh", "-c", 'echo "a"; sleep 9']}, "timeoutSeconds": 1}
    assert await ask(probe) == r'command timed out: "sh -c echo \"a\"; sleep 9" timed out after 1s'


async def test_a_look_that_is_called_off_in_the_moment_it_ends_is_called_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the probe of a container that is gone would never end."""
    answer: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
    asked = asyncio.Event()

    async def run(*_: object) -> tuple[int, str]:
        asked.set()
        return await answer

    monkeypatch.setattr(checkup, "run_command", run)
    look = asyncio.ensure_future(ask({"exec": {"command": ["true"]}, "timeoutSeconds": 60}))
    await asked.wait()
    answer.set_result((0, ""))
    look.cancel()
    await asyncio.wait({look})
    assert look.cancelled()
