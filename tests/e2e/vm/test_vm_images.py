"""Images that VMs start from: disks that the firmware boots, and registries that require credentials."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
from pathlib import Path

import grpc
import pytest
from tests.e2e.guest import vm_image
from tests.support.containers.images import build
from tests.support.containers.registry import LoopbackRegistry
from tests.vms import guest_archive, logged, needs_vms, serving, until

from podfit.cri import api_pb2 as cri

pytestmark = needs_vms
# Writes the second sector of its disk (int 13h), prints what follows it on the serial port (int 14h), and halts.
BOOT_SECTOR = bytes.fromhex("31c08ed88ec0b80103bb007cb90200ba8000cd13be277cac84c07408b40131d2cd14ebf3f4ebfd")
GREETING = b"booted from its disk\r\n\0"


def disk(folder: Path, kind: str) -> Path:
    """A disk of 1 MiB whose first sector is a program."""
    raw = folder / "disk.raw"
    raw.write_bytes((BOOT_SECTOR + GREETING).ljust(510, b"\0") + b"\x55\xaa" + bytes((1 << 20) - 512))
    if kind == "raw":
        return raw
    return converted(raw, folder / "disk.qcow2", "qcow2")


def converted(source: Path, target: Path, kind: str) -> Path:
    subprocess.run(["qemu-img", "convert", "-O", kind, source, target], check=True, timeout=60)
    return target


@pytest.mark.parametrize("kind", ["raw", "qcow2"])
async def test_a_container_disk_is_booted_by_the_firmware_and_never_written_to(tmp_path: Path, kind: str) -> None:
    source = disk(tmp_path, kind)
    name = "podfit.dev/disk:1"
    archive = vm_image.oci_archive(tmp_path / "disk.tar", name, {f"/disk/{source.name}": source})
    before = hashlib.sha256(source.read_bytes()).digest()
    async with serving(tmp_path, archive) as (runtime, vms):
        id = await vms.run("disk", folder=tmp_path / "logs", image=name)

        async def booted() -> bool:
            return "booted from its disk" in logged(tmp_path / "logs/vm/0.log")

        await until(booted, 90)
        base = Path(runtime.container(id).image.disk)
        assert hashlib.sha256(base.read_bytes()).digest() == before
        await vms.stop(id)
        overlay = tmp_path / "vms" / id / "root.qcow2"
        written = converted(overlay, tmp_path / "written.raw", "raw")
        assert written.read_bytes()[512:1024] == written.read_bytes()[:512]
        assert hashlib.sha256(base.read_bytes()).digest() == before


async def test_a_disk_that_vanished_is_reported_and_starts_nothing(tmp_path: Path) -> None:
    source = disk(tmp_path, "raw")
    name = "podfit.dev/disk:1"
    archive = vm_image.oci_archive(tmp_path / "disk.tar", name, {f"/disk/{source.name}": source})
    async with serving(tmp_path, archive) as (_, vms):
        gone = next(tmp_path.glob("images/rootfs/*/disk/disk.raw"))
        content = gone.read_bytes()
        gone.unlink()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await vms.run("early", image=name)
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        gone.write_bytes(content)
        config = await vms.sandbox("late")
        sandbox = (await vms.runtime["RunPodSandbox"](cri.RunPodSandboxRequest(config=config))).pod_sandbox_id
        container = cri.ContainerConfig(metadata=cri.ContainerMetadata(name="vm"), image=cri.ImageSpec(image=name))
        request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=container, sandbox_config=config)
        id = (await vms.runtime["CreateContainer"](request)).container_id
        gone.unlink()
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await vms.runtime["StartContainer"](cri.StartContainerRequest(container_id=id))
        assert "disk.raw" in (failed.value.details() or "")
        assert (await vms.status(id)).state != cri.ContainerState.CONTAINER_RUNNING


async def test_a_vm_image_is_pulled_with_credentials_and_not_without(tmp_path: Path) -> None:
    image = build([{"disk/": b"", "disk/disk.raw": disk(tmp_path, "raw").read_bytes()}])
    async with LoopbackRegistry() as registry, serving(tmp_path) as (_, vms):
        registry.users = {"team": "secret"}
        name = registry.push("team/disk:1", image)
        spec = cri.ImageSpec(image=name)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await vms.image["PullImage"](cri.PullImageRequest(image=spec))
        assert "authentication required" in (refused.value.details() or "").lower() or "401" in str(refused.value)
        auth = cri.AuthConfig(username="team", password="secret")
        found = await vms.image["PullImage"](cri.PullImageRequest(image=spec, auth=auth))
        assert found.image_ref == image.id
        id = await vms.run("pulled", image=name)
        assert (await vms.status(id)).state == cri.ContainerState.CONTAINER_RUNNING


@pytest.mark.slow
async def test_ten_vms_started_at_once_all_boot(tmp_path: Path) -> None:
    async with serving(tmp_path, guest_archive(tmp_path)) as (_, vms):
        ids = await asyncio.gather(*(vms.run(f"crowd-{number}", memory=128) for number in range(10)))
        await asyncio.gather(*(vms.booted(id, 400) for id in ids))
        assert len(set(ids)) == 10
        hosts = await asyncio.gather(*(vms.exec(id, "hostname") for id in ids))
        assert {host.strip() for host in hosts} == {f"crowd-{number}" for number in range(10)}
