"""Block volumes of a VM pod: disks of the guest, at the paths that the pod states, and a disk that the VM boots
from.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from tests.e2e.vm.test_vm_images import disk
from tests.e2e.vm.test_vm_volumes import needs_virtiofs
from tests.vms import GUEST, Vms, guest_archive, logged, needs_vms, resources, serving, until

from podfit.cri import api_pb2 as cri

pytestmark = needs_vms


async def run(vms: Vms, config: cri.PodSandboxConfig, *devices: tuple[str, Path], token: Path | None = None) -> str:
    sandbox = (await vms.runtime["RunPodSandbox"](cri.RunPodSandboxRequest(config=config))).pod_sandbox_id
    target = "/var/run/secrets/kubernetes.io/serviceaccount"
    container = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="vm"),
        image=cri.ImageSpec(image=GUEST),
        log_path="vm/0.log",
        devices=[cri.Device(container_path=path, host_path=str(source)) for path, source in devices],
        mounts=[cri.Mount(container_path=target, host_path=str(token), readonly=True)] if token else [],
        linux=cri.LinuxContainerConfig(resources=resources(1, 256)),
    )
    request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=container, sandbox_config=config)
    id: str = (await vms.runtime["CreateContainer"](request)).container_id
    await vms.runtime["StartContainer"](cri.StartContainerRequest(container_id=id))
    return id


def filled(path: Path, text: bytes) -> Path:
    path.write_bytes(text.ljust(1 << 20, b"\0"))
    return path


@contextlib.contextmanager
def loop_device(file: Path) -> Iterator[Path]:
    made = subprocess.run(["losetup", "--find", "--show", str(file)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no loop devices here: {made.stderr.strip()}")
    try:
        yield Path(made.stdout.strip())
    finally:
        subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True)


async def test_a_guest_reads_and_writes_its_block_volumes(tmp_path: Path) -> None:
    file, behind = filled(tmp_path / "file.raw", b"a file"), filled(tmp_path / "device.raw", b"a device")
    with loop_device(behind) as device:
        async with serving(tmp_path / "vm", guest_archive(tmp_path)) as (_, vms):
            config = await vms.sandbox("blocks")
            id = await run(vms, config, ("/dev/data", file), ("/srv/disks/own", device))
            await vms.booted(id)

            async def linked() -> bool:
                return bool(await vms.exec(id, "[ -b /dev/data ] && [ -b /srv/disks/own ] && echo yes || true"))

            await until(linked, 60)
            assert await vms.exec(id, "head -c 6 /dev/data; head -c 8 /srv/disks/own") == "a filea device"
            await vms.exec(id, "printf written | dd of=/dev/data conv=fsync 2>/dev/null")
            await vms.exec(id, "printf as-well | dd of=/srv/disks/own conv=fsync 2>/dev/null")
            await vms.stop(id)
        assert file.read_bytes().startswith(b"written")
        assert device.read_bytes()[:7] == b"as-well"


async def test_a_vm_boots_from_the_block_volume_that_it_names(tmp_path: Path) -> None:
    source = disk(tmp_path, "raw")
    async with serving(tmp_path / "vm", guest_archive(tmp_path)) as (_, vms):
        config = await vms.sandbox("booted", tmp_path / "logs", boot_device="/dev/root")
        await run(vms, config, ("/dev/data", filled(tmp_path / "data.raw", b"data")), ("/dev/root", source))

        async def booted() -> bool:
            return "booted from its disk" in logged(tmp_path / "logs/vm/0.log")

        await until(booted, 90)


async def test_a_volume_that_cannot_be_a_disk_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with serving(tmp_path / "vm", guest_archive(tmp_path)) as (_, vms):
        plain, booted = await vms.sandbox("plain"), await vms.sandbox("booted", boot_device="/dev/none")
        file = filled(tmp_path / "file.raw", b"")
        for config, path, words in (
            (plain, tmp_path / "missing", "No such file"),
            (plain, tmp_path, "neither a block device nor a file"),
            (booted, file, "podfit.dev/vm-boot-device"),
        ):
            with pytest.raises(grpc.aio.AioRpcError, match=words) as refused:
                await run(vms, config, ("/dev/data", path))
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@needs_virtiofs
async def test_a_guest_has_the_token_of_its_service_account_if_the_pod_requests_it(tmp_path: Path) -> None:
    token = tmp_path / "kube-api-access-x1"
    token.mkdir()
    (token / "token").write_text("abc")
    async with serving(tmp_path / "vm", guest_archive(tmp_path)) as (_, vms):
        without = await run(vms, await vms.sandbox("without"), token=token)
        asking = await run(vms, await vms.sandbox("asking", service_account_token="true"), token=token)
        await vms.booted(asking)
        read = "cat /var/run/secrets/kubernetes.io/serviceaccount/token 2>/dev/null || true"

        async def mounted() -> bool:
            return await vms.exec(asking, read) == "abc"

        await until(mounted, 60)
        await vms.booted(without)
        assert await vms.exec(without, read) == ""
