"""`podfit doctor` and the container runtime: each fault with its remedy."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from podfit.cli.checks import Finding
from podfit.cli.checks import runtime as runtime_module
from podfit.cli.checks.runtime import runtime_checks
from podfit.cri import api_pb2 as api
from podfit.cri.configuration import uses_systemd
from podfit.cri.services import IMAGE, OPTIONS, RUNTIME, handler

PLUGIN = {"type": "bridge", "ipam": {"type": "host-local"}}


class Runtime:
    """Responds as containerd does, and can be misconfigured."""

    def __init__(self) -> None:
        self.network = True
        self.images = {"pause"}
        self.systemd = False
        self.restricts_scores = True
        self.plugins: Path | None = None

    async def Version(self, request: Any, context: Any) -> api.VersionResponse:
        return api.VersionResponse(runtime_name="containerd", runtime_version="1.6.20")

    async def Status(self, request: Any, context: Any) -> api.StatusResponse:
        options = {"options": {"SystemdCgroup": self.systemd}}
        cni = {"PluginDirs": [str(self.plugins)], "Networks": [{"Config": {"Plugins": [{"Network": PLUGIN}]}}]}
        config = {
            "restrictOOMScoreAdj": self.restricts_scores,
            "sandboxImage": "pause",
            "containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": options}},
        }
        why = "" if self.network else "cni plugin not initialized"
        conditions = [
            api.RuntimeCondition(type="RuntimeReady", status=True),
            api.RuntimeCondition(type="NetworkReady", status=self.network, reason="NotReady", message=why),
        ]
        info = {"config": json.dumps(config), **({"cniconfig": json.dumps(cni)} if self.plugins else {})}
        return api.StatusResponse(status=api.RuntimeStatus(conditions=conditions), info=info)

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


async def test_a_configured_plugin_that_is_not_installed_is_an_error(
    served: tuple[Runtime, str], tmp_path: Path
) -> None:
    served[0].plugins = tmp_path
    (tmp_path / "bridge").touch(0o755)
    finding = (await found(served[1]))["CNI"]
    assert finding.level == "fail" and "host-local" in finding.found and "containernetworking-plugins" in finding.help
    (tmp_path / "host-local").touch(0o755)
    assert (await found(served[1]))["CNI"].level == "ok"


async def test_scores_that_may_not_be_lowered_are_a_fault_unless_the_runtime_knows(
    served: tuple[Runtime, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_module, "has_capability", lambda number: False)
    assert "oom_score_adj" not in await found(served[1])
    served[0].restricts_scores = False
    finding = (await found(served[1]))["oom_score_adj"]
    assert finding.level == "fail" and "restrict_oom_score_adj = true" in finding.help


async def test_the_systemd_driver_without_systemd_is_a_fault(
    served: tuple[Runtime, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served[0].systemd = True
    monkeypatch.setattr(runtime_module, "SYSTEMD", tmp_path / "none")
    finding = (await found(served[1]))["cgroup driver"]
    assert finding.level == "fail" and "SystemdCgroup = false" in finding.help


@pytest.mark.parametrize(("systemd", "driver"), [(True, "systemd"), (False, "cgroupfs")])
async def test_the_cgroup_driver_of_an_old_runtime_is_read_from_its_configuration(
    served: tuple[Runtime, str], systemd: bool, driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_module, "SYSTEMD", tmp_path)
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
