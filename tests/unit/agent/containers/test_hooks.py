"""Lifecycle hooks that send HTTP requests; commands and pauses are in the tests of pods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podfit.agent.containers.hooks import Hooks
from podfit.agent.pods.record import PodRecord
from podfit.agent.pods.story import Story
from podfit.agent.runtimes.fake.runtime import FakeRuntime
from podfit.kit.clock import FakeClock


@pytest.mark.parametrize("status", [200, 404, 500])
async def test_a_hook_sends_its_own_user_agent_and_accepts_any_response(status: int) -> None:
    heard: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(f"HTTP/1.1 {status} X\r\n\r\n".encode())
        writer.close()

    clock = FakeClock()
    container: dict[str, Any] = {"name": "c", "ports": [{"name": "web", "containerPort": 0}]}
    pod = {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [container]}}
    record = PodRecord("u", pod, Story(clock))
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        container["ports"][0]["containerPort"] = server.sockets[0].getsockname()[1]
        hook = {"httpGet": {"port": "web", "path": "bye", "httpHeaders": [{"name": "X-A", "value": "b"}]}}
        assert await Hooks(FakeRuntime(clock), clock).run(record, container, hook, "id") == ""
    lines = heard[0].splitlines()
    assert lines[0] == "GET /bye HTTP/1.1"
    assert {"User-Agent: kube-lifecycle/1.36", "X-A: b"} <= set(lines)


async def test_a_webhook_without_a_response_has_failed() -> None:
    clock = FakeClock()
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
    container: dict[str, Any] = {"name": "c"}
    record = PodRecord("u", {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [container]}}, Story(clock))
    hooks = Hooks(FakeRuntime(clock), clock)
    failed = await hooks.run(record, container, {"httpGet": {"port": port, "path": "/bye"}}, "id")
    asked = f'Get "http://127.0.0.1:{port}/bye": dial tcp 127.0.0.1:{port}: connect: connection refused'
    assert failed == f'HTTP lifecycle hook (/bye) for Container "c" in Pod "p_default(u)" failed - error: {asked}'
    failed = await hooks.run(record, container, {"httpGet": {"port": "web"}}, "id")
    assert failed.endswith("failed - error: couldn't find port: web")
