"""CRI's messages and the two ends of its calls."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from podfit.cri import api_pb2 as api
from podfit.cri.services import IMAGE, OPTIONS, RUNTIME, calls, handler

ROOT = Path(__file__).parents[2]


def test_the_compiled_modules_equal_a_fresh_compilation(tmp_path: Path) -> None:
    if not (ROOT / ".venv/bin/python").exists() or shutil.which("bash") is None:
        pytest.skip("needs the development environment (make dev)")
    subprocess.run([ROOT / "scripts/compile-protos", tmp_path], check=True, timeout=120)
    for name in ("api_pb2.py", "api_pb2.pyi"):
        compiled, committed = tmp_path / "podfit/cri" / name, ROOT / "src/podfit/cri" / name
        assert compiled.read_text() == committed.read_text(), f"{name} is out of date: run scripts/compile-protos"


def test_the_bytes_on_the_wire_are_those_of_cri() -> None:
    request = api.UpdateContainerResourcesRequest(
        container_id="a", linux=api.LinuxContainerResources(cpu_period=100_000, cpu_quota=-1, memory_limit_in_bytes=5)
    )
    assert request.SerializeToString() == b"\x0a\x01a\x12\x11\x08\xa0\x8d\x06\x10" + b"\xff" * 9 + b"\x01" + b"\x20\x05"


class Servicer:
    async def Version(self, request: api.VersionRequest, context: Any) -> api.VersionResponse:
        return api.VersionResponse(version=request.version, runtime_name="test")

    async def GetContainerEvents(
        self, request: api.GetEventsRequest, context: Any
    ) -> AsyncIterator[api.ContainerEventResponse]:
        for name in ("a", "b"):
            yield api.ContainerEventResponse(container_id=name)

    async def ListImages(self, request: api.ListImagesRequest, context: Any) -> api.ListImagesResponse:
        return api.ListImagesResponse(images=[api.Image(id="sha256:1")])


@pytest.fixture
async def channel(tmp_path: Path) -> AsyncIterator[grpc.aio.Channel]:
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers((handler(RUNTIME, Servicer()), handler(IMAGE, Servicer())))
    server.add_insecure_port(f"unix://{tmp_path}/cri.sock")
    await server.start()
    async with grpc.aio.insecure_channel(f"unix://{tmp_path}/cri.sock", options=OPTIONS) as made:
        yield made
    await server.stop(None)


async def test_calls_and_streams_reach_the_servicer(channel: grpc.aio.Channel) -> None:
    runtime = calls(channel, RUNTIME)
    answer = await runtime["Version"](api.VersionRequest(version="v1"), timeout=10)
    assert (answer.version, answer.runtime_name) == ("v1", "test")
    events = [event.container_id async for event in runtime["GetContainerEvents"](api.GetEventsRequest(), timeout=10)]
    assert events == ["a", "b"]
    images = await calls(channel, IMAGE)["ListImages"](api.ListImagesRequest(), timeout=10)
    assert [image.id for image in images.images] == ["sha256:1"]


async def test_a_call_that_is_not_served_is_unimplemented(channel: grpc.aio.Channel) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await calls(channel, RUNTIME)["RuntimeConfig"](api.RuntimeConfigRequest(), timeout=10)
    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED
