"""Volumes of a pod in its guest: folders of the node, mounted by virtiofs."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from tests.vms import GUEST, Vms, guest_archive, needs_vms, resources, serving, until

from podfit.cri import api_pb2 as cri
from podfit.vm.guest.shares import DAEMONS

needs_virtiofs = pytest.mark.skipif(
    not any(Path(daemon).exists() for daemon in DAEMONS), reason="virtiofsd is not installed"
)
pytestmark = [needs_vms, needs_virtiofs]


async def run(vms: Vms, *mounts: cri.Mount) -> str:
    config = await vms.sandbox("shared")
    sandbox = (await vms.runtime["RunPodSandbox"](cri.RunPodSandboxRequest(config=config))).pod_sandbox_id
    container = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="vm"),
        image=cri.ImageSpec(image=GUEST),
        mounts=mounts,
        linux=cri.LinuxContainerConfig(resources=resources(1, 256)),
    )
    request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=container, sandbox_config=config)
    id: str = (await vms.runtime["CreateContainer"](request)).container_id
    await vms.runtime["StartContainer"](cri.StartContainerRequest(container_id=id))
    return id


async def test_a_guest_reads_and_writes_the_volumes_of_its_pod(tmp_path: Path) -> None:
    data, settings = tmp_path / "data", tmp_path / "settings"
    data.mkdir()
    settings.mkdir()
    (settings / "mode").write_text("quick\n")
    async with serving(tmp_path / "vm", guest_archive(tmp_path)) as (_, vms):
        id = await run(
            vms,
            cri.Mount(container_path="/data", host_path=str(data)),
            cri.Mount(container_path="/etc/settings", host_path=str(settings), readonly=True),
        )
        await vms.booted(id)

        async def mounted() -> bool:
            return await vms.exec(id, "cat /etc/settings/mode 2>/dev/null || true") == "quick\n"

        await until(mounted, 60)
        await vms.exec(id, "echo from the guest >/data/note")
        assert (data / "note").read_text() == "from the guest\n"
        # Whatever the guest's kernel does, it cannot write to a read-only mount.
        await vms.exec(id, "mount -o remount,rw /etc/settings; ! echo slow >/etc/settings/mode")
        assert (settings / "mode").read_text() == "quick\n"
        await vms.resize(id, 1, 500)
        assert await vms.size(id) == (1, 500)
        assert await vms.exec(id, "cat /data/note") == "from the guest\n"
    assert (settings / "mode").read_text() == "quick\n" and (data / "note").exists()
    assert not list((tmp_path / "vm/shares").glob("*"))


async def test_a_volume_that_is_not_a_folder_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("x")
    async with serving(tmp_path / "vm", guest_archive(tmp_path)) as (_, vms):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await run(vms, cri.Mount(container_path="/one", host_path=str(tmp_path / "one")))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "a VM can only mount folders" in (refused.value.details() or "")
