"""The power state of a VM while its container exists: paused, suspended to disk, shut down, and on again."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from tests.vms import Vms, guest_archive, needs_vms, process, resources, serving, until

from podfit.api.pods.machines import PAUSED, POWER, POWER_GRACE, RUNNING, SHUTDOWN, SUSPENDED
from podfit.cri import api_pb2 as cri

pytestmark = needs_vms


async def turn(vms: Vms, id: str, power: str, grace_s: int = 30) -> None:
    request = cri.UpdateContainerResourcesRequest(
        container_id=id, annotations={POWER: power, POWER_GRACE: str(grace_s)}
    )
    await vms.runtime["UpdateContainerResources"](request)


async def power_of(vms: Vms, id: str) -> str:
    about = await vms.about(id)
    return str(about["machine"]["power"])


async def test_a_paused_or_suspended_guest_resumes_where_it_stopped(tmp_path: Path) -> None:
    async with serving(tmp_path, guest_archive(tmp_path)) as (runtime, vms):
        id = await vms.run("paused")
        await vms.booted(id)
        pid = runtime.lives.machine(runtime.container(id)).pid()
        await turn(vms, id, PAUSED)
        assert await power_of(vms, id) == PAUSED
        assert (await vms.status(id)).state == cri.ContainerState.CONTAINER_RUNNING
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await vms.resize(id, 1, 384)
        assert "the VM is paused" in (refused.value.details() or "")
        await turn(vms, id, RUNNING)
        assert await power_of(vms, id) == RUNNING
        await vms.booted(id)
        assert runtime.lives.machine(runtime.container(id)).pid() == pid
        await vms.exec(id, "echo kept >/tmp/note")
        pid = runtime.lives.machine(runtime.container(id)).pid()
        await turn(vms, id, SUSPENDED)
        assert await power_of(vms, id) == SUSPENDED
        assert not Path(f"/proc/{pid}/task").exists()
        assert (await vms.status(id)).state == cri.ContainerState.CONTAINER_RUNNING
        with pytest.raises(grpc.aio.AioRpcError, match="the VM is suspended: commands can run when it runs again"):
            await vms.exec(id, "true")
        await turn(vms, id, RUNNING)
        await vms.booted(id)
        assert await vms.exec(id, "cat /tmp/note") == "kept\n"
        # A paused guest receives the power button when its pod is deleted.
        await turn(vms, id, PAUSED)
        await vms.stop(id, 30)
        assert (await vms.status(id)).exit_code == 0


async def test_a_vm_that_is_shut_down_is_resized_and_starts_with_its_new_size(tmp_path: Path) -> None:
    async with serving(tmp_path, guest_archive(tmp_path)) as (_, vms):
        id = await vms.run("off")
        await vms.booted(id)
        await vms.exec(id, "echo lost >/tmp/note")
        await turn(vms, id, SHUTDOWN)
        assert await power_of(vms, id) == SHUTDOWN
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await turn(vms, id, SUSPENDED)
        assert "cannot be suspended" in (refused.value.details() or "")
        await vms.resize(id, 2, 384)
        await turn(vms, id, RUNNING)
        await vms.booted(id)
        assert (await vms.guest(id))[0] == 2
        assert await vms.size(id) == (2, 384)
        assert await vms.exec(id, "cat /tmp/note 2>/dev/null || echo new") == "new\n"
        await turn(vms, id, SUSPENDED)
        await vms.stop(id)
        status = await vms.status(id)
        assert (status.state, status.exit_code) == (cri.ContainerState.CONTAINER_EXITED, 0)


async def test_a_vm_that_is_off_stays_off_after_the_runtime_was_killed(tmp_path: Path) -> None:
    archive = guest_archive(tmp_path)
    async with process(tmp_path, "--image-archive", str(archive)) as running:
        vms = Vms(tmp_path / "vm.sock")
        saved, off = await vms.run("saved"), await begun(vms, SHUTDOWN)
        await vms.booted(saved)
        await vms.exec(saved, "echo kept >/tmp/note")
        await turn(vms, saved, SUSPENDED)
        running.kill()
        await vms.close()
    async with process(tmp_path):
        vms = Vms(tmp_path / "vm.sock")
        assert await power_of(vms, saved) == SUSPENDED
        assert await power_of(vms, off) == SHUTDOWN
        await turn(vms, saved, RUNNING)
        await vms.booted(saved)
        assert await vms.exec(saved, "cat /tmp/note") == "kept\n"
        await vms.remove_all()
        await vms.close()


async def test_a_vm_can_begin_shut_down_or_paused(tmp_path: Path) -> None:
    async with serving(tmp_path, guest_archive(tmp_path)) as (runtime, vms):
        for power, has_process in ((SHUTDOWN, False), (PAUSED, True)):
            id = await begun(vms, power)
            assert await power_of(vms, id) == power
            assert (await vms.status(id)).state == cri.ContainerState.CONTAINER_RUNNING
            assert (runtime.lives.machine(runtime.container(id)).pid() is not None) is has_process


async def begun(vms: Vms, power: str) -> str:
    config = await vms.sandbox(f"begins-{power.lower()}")
    sandbox = (await vms.runtime["RunPodSandbox"](cri.RunPodSandboxRequest(config=config))).pod_sandbox_id
    container = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="vm"),
        image=cri.ImageSpec(image="podfit.dev/vm-guest:1"),
        annotations={POWER: power},
        linux=cri.LinuxContainerConfig(resources=resources(1, 256)),
    )
    request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=container, sandbox_config=config)
    id: str = (await vms.runtime["CreateContainer"](request)).container_id
    await vms.runtime["StartContainer"](cri.StartContainerRequest(container_id=id))
    return id


async def test_cloud_init_data_and_keys_reach_the_guest(tmp_path: Path) -> None:
    keys = "ssh-ed25519 AAAA me\nssh-rsa BBBB you\n"
    async with serving(tmp_path, guest_archive(tmp_path)) as (_, vms):
        id = await vms.run("seeded", user_data="echo done >/run/told", ssh_keys=keys)
        await vms.booted(id)

        async def reported() -> bool:
            return await vms.exec(id, "cat /run/told 2>/dev/null || true") == "done\n"

        await until(reported, 60)
        assert await vms.exec(id, "cat ~root/.ssh/authorized_keys") == keys
