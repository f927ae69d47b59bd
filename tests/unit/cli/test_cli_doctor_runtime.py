"""`podfit doctor` and the container runtime: each fault with what to do about it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from podfit.cli.checks import Finding
from podfit.cli.checks.runtime import runtime_checks
from podfit.cri import api_pb2 as api
from podfit.cri.configuration import uses_systemd
from podfit.cri.services import IMAGE, OPTIONS, RUNTIME, handler


class Runtime:
    """Answers as containerd does, and can be set up badly."""

    def __init__(self) -> None:
        self.network = True
        self.images = {"pause"}
        self.systemd = False

    async def Version(self, request: Any, context: Any) -> api.VersionResponse:
        return api.VersionResponse(runtime_name="containerd", runtime_version="1.6.20")

    async def Status(self, request: Any, context: Any) -> api.StatusResponse:
        options = {"options": {"SystemdCgroup": self.systemd}}
        config = {"sandboxImage": "pause", "containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": options}}}
        why = "" if self.network else "cni plugin not initialized"
        conditions = [
            api.RuntimeCondition(type="RuntimeReady", status=True),
            api.RuntimeCondition(type="NetworkReady", status=self.network, reason="NotReady", message=why),
        ]
        return api.StatusResponse(status=api.RuntimeStatus(conditions=conditions), info={"config": json.dumps(config)})

    async def ImageStatus(self, request: Any, context: Any) -> api.ImageStatusResponse:
        image = request.image.image
        return api.ImageStatusResponse(image=api.Image(id=image) if image in self.images else None)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[tuple[Runtime, str]]:
    runtime, server = Runtime(), grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers((handler(RUNTIME, runtime), handler(IMAGE, runtime)))
    server.add_insecure_port(f"unix://{tmp_path}/cri.sock")
    await server.start()
    yield runtime, f"unix://{tmp_path}/cri.sock"
    await server.stop(None)


async def found(endpoint: str) -> dict[str, Finding]:
    return {finding.name: finding async for finding in runtime_checks(endpoint)}


async def test_a_runtime_that_is_well_set_up_is_in_order(served: tuple[Runtime, str]) -> None:
    findings = await found(served[1])
    assert {finding.level for finding in findings.values()} == {"ok"}
    assert "containerd 1.6.20" in findings["container runtime"].found


async def test_a_missing_network_is_a_fault_with_advice(served: tuple[Runtime, str]) -> None:
    served[0].network = False
    finding = (await found(served[1]))["CNI"]
    assert finding.level == "fail" and "not initialized" in finding.found and "/etc/cni/net.d" in finding.help


async def test_a_missing_sandbox_image_is_advice(served: tuple[Runtime, str]) -> None:
    served[0].images.clear()
    finding = (await found(served[1]))["sandbox image"]
    assert finding.level == "warn" and "images pull pause" in finding.help


@pytest.mark.parametrize(("systemd", "driver"), [(True, "systemd"), (False, "cgroupfs")])
async def test_the_cgroup_driver_of_an_old_runtime_is_read_from_its_configuration(
    served: tuple[Runtime, str], systemd: bool, driver: str
) -> None:
    served[0].systemd = systemd
    finding = (await found(served[1]))["cgroup driver"]
    assert finding.level == "ok" and finding.found.startswith(driver)


async def test_a_runtime_that_does_not_answer_is_a_fault_if_it_was_named(tmp_path: Path) -> None:
    finding = (await found(f"unix://{tmp_path}/none.sock"))["container runtime"]
    assert finding.level == "fail" and "--container-runtime-endpoint" in finding.help


async def test_an_endpoint_that_cannot_be_one_is_a_fault() -> None:
    assert (await found("containerd"))["container runtime"].level == "fail"


def test_settings_of_runtimes_that_show_none_mean_no_systemd() -> None:
    assert not uses_systemd({}) and uses_systemd({"systemdCgroup": True})
