"""A running VM moves between two runtimes with a libvirt daemon each: the migration cases of the VM design."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.e2e.guest import vm_image
from tests.libvirtds import Libvirtd, libvirtds, needs_libvirtd
from tests.vms import GUEST, Vms, guest_archive, needs_vms, resources, serving, until

from podfit.cri import api_pb2 as cri

pytestmark = [needs_vms, needs_libvirtd]
X, DELTA = 256, 128
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
CELLS = "sed -n 's/.*MemTotal: *\\([0-9]*\\).*/\\1/p' /sys/devices/system/node/node[0-3]/meminfo"


@dataclass
class Host:
    daemon: Libvirtd
    folder: Path
    runtime: Any
    vms: Vms


@contextlib.asynccontextmanager
async def host(folder: Path, daemon: Libvirtd, archive: Path | None = None, keep: bool = False) -> AsyncIterator[Host]:
    settings = {"libvirt_socket": daemon.socket, "libvirt_folder": folder / "lv"}
    async with serving(folder, archive, keep, **settings) as (runtime, vms):
        yield Host(daemon, folder, runtime, vms)


@contextlib.asynccontextmanager
async def two_hosts(folder: Path) -> AsyncIterator[tuple[Host, Host]]:
    archive = guest_archive(folder)
    with libvirtds(folder, "one", "two") as (one, two):
        async with host(folder / "a", one, archive) as first, host(folder / "b", two, archive) as second:
            yield first, second


async def prepared(source: Host, target: Host, id: str, name: str) -> dict[str, Any]:
    """Offers the VM at one runtime and prepares it at the other."""
    offer = (await source.vms.migrations["Offer"]({"id": id}))["offer"]
    config = await target.vms.sandbox(name, target.folder / "logs")
    sandbox = await target.vms.runtime["RunPodSandbox"](cri.RunPodSandboxRequest(config=config))
    container = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="vm"),
        image=cri.ImageSpec(image=GUEST),
        log_path="vm/0.log",
        linux=cri.LinuxContainerConfig(resources=resources(1, X)),
    )
    encoded = base64.b64encode(container.SerializeToString()).decode()
    request = {"sandbox": sandbox.pod_sandbox_id, "config": encoded, "offer": offer}
    place: dict[str, Any] = (await target.vms.migrations["Prepare"](request))["place"]
    return place


async def moved(source: Host, target: Host, id: str, name: str) -> None:
    place = await prepared(source, target, id, name)
    await source.vms.migrations["Move"]({"id": id, "place": place})
    await arrived(target, id)


async def arrived(target: Host, id: str) -> None:
    async def runs() -> bool:
        return bool((await target.vms.status(id)).state == cri.ContainerState.CONTAINER_RUNNING)

    await until(runs, 60)
    await target.vms.booted(id)


async def resized(vms: Vms, id: str, cpus: int, memory: int) -> None:
    """Waits: the runtime retries by itself when the guest is slow."""
    with contextlib.suppress(grpc.aio.AioRpcError):
        await vms.resize(id, cpus, memory)

    async def reached() -> bool:
        return await vms.size(id) == (cpus, memory) and (await vms.guest(id))[0] == cpus

    await until(reached, 90)


async def rebooted(where: Host, id: str, boot: str) -> str:
    """The new boot's ID, once the guest has rebooted."""
    await where.runtime.lives.machine(where.runtime.container(id)).reset()
    found = boot

    async def again() -> bool:
        nonlocal found
        with contextlib.suppress(grpc.aio.AioRpcError):
            found = await where.vms.exec(id, BOOT_ID)
        return found != boot

    await until(again, 120)
    return found


async def test_a_resized_vm_keeps_its_size_when_it_moves_and_when_it_reboots_there(short_path: Path) -> None:
    async with two_hosts(short_path) as (source, target):
        id = await source.vms.run("guest", folder=source.folder / "logs")
        await source.vms.booted(id)
        boot, started = await source.vms.exec(id, BOOT_ID), (await source.vms.status(id)).started_at
        # Memory on the way there; then vCPUs as well, on the way back.
        for cpus, here, there in ((1, source, target), (2, target, source)):
            await resized(here.vms, id, cpus, X + DELTA)

            await moved(here, there, id, "guest")

            assert await there.vms.size(id) == (cpus, X + DELTA)
            assert await there.vms.exec(id, BOOT_ID) == boot, "the guest was not restarted"
            assert (await there.vms.status(id)).started_at == started
            container = there.runtime.container(id)
            assert there.runtime.cgroups.usage(container.group).memory_bytes > 50 << 20
            boot = await rebooted(there, id, boot)
            await resized(there.vms, id, cpus, X + DELTA)
            await here.vms.remove_all()
        await resized(source.vms, id, 2, X)


async def test_memory_plugged_into_a_numa_cell_is_in_that_cell_after_the_move(short_path: Path) -> None:
    async with two_hosts(short_path) as (source, target):
        id = await source.vms.run("numa", memory=512, numa_cells="4", numa_node="2")
        await source.vms.booted(id)
        before = [int(line) >> 10 for line in (await source.vms.exec(id, CELLS)).split()]
        await resized(source.vms, id, 1, 512 + DELTA)

        await moved(source, target, id, "numa")

        assert await target.vms.size(id) == (1, 512 + DELTA)
        after = [int(line) >> 10 for line in (await target.vms.exec(id, CELLS)).split()]
        grown = [now - then for now, then in zip(after, before, strict=True)]
        assert all(abs(item - wanted) <= 8 for item, wanted in zip(grown, [0, 0, DELTA, 0], strict=True))


async def test_a_vm_that_cannot_be_migrated_keeps_running_where_it_is(short_path: Path) -> None:
    async with two_hosts(short_path) as (source, target):
        id = await source.vms.run("guest")
        await source.vms.booted(id)
        boot = await source.vms.exec(id, BOOT_ID)
        place = await prepared(source, target, id, "guest")
        target.daemon.kill()
        with pytest.raises(grpc.aio.AioRpcError):
            await source.vms.migrations["Move"]({"id": id, "place": place})
        await source.vms.migrations["Stay"]({"id": id})
        assert await source.vms.exec(id, BOOT_ID) == boot
        await resized(source.vms, id, 1, X + DELTA)
        target.daemon.start()

        async def forgotten() -> bool:
            with contextlib.suppress(grpc.aio.AioRpcError):
                await target.vms.remove_all()
                return True
            return False

        await until(forgotten, 60)


async def test_a_paused_vm_stays(short_path: Path) -> None:
    with libvirtds(short_path, "one") as (daemon,):
        async with host(short_path / "a", daemon, guest_archive(short_path)) as source:
            id = await source.vms.run("guest")
            await source.runtime.lives.machine(source.runtime.container(id)).pause()
            with pytest.raises(grpc.aio.AioRpcError, match="the VM is paused"):
                await source.vms.migrations["Offer"]({"id": id})


async def test_a_vm_of_libvirt_in_the_process_stays(tmp_path: Path) -> None:
    async with serving(tmp_path, guest_archive(tmp_path)) as (_, vms):
        id = await vms.run("guest")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await vms.migrations["Offer"]({"id": id})
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "--libvirt-socket" in (refused.value.details() or "")


async def test_a_vm_takes_what_it_wrote_to_its_disk_along(short_path: Path) -> None:
    image, initramfs = vm_image.guest()
    disk = short_path / "disk.raw"
    disk.write_bytes(b"from the image".ljust(4 << 20, b"\0"))
    files = {"/boot/vmlinuz": image, "/boot/initrd.img": initramfs, "/disk/disk.raw": disk}
    labels = {"podfit.dev/vm-cmdline": vm_image.CMDLINE}
    archive = vm_image.oci_archive(short_path / "disk.tar", GUEST, files, labels)
    with libvirtds(short_path, "one", "two") as (one, two):
        async with host(short_path / "a", one, archive) as source, host(short_path / "b", two, archive) as target:
            id = await source.vms.run("guest")
            await source.vms.booted(id)
            await source.vms.exec(id, "printf written | dd of=/dev/vda bs=1 seek=1048576 conv=fsync 2>/dev/null")
            await moved(source, target, id, "guest")
            await source.vms.remove_all()
            read = "head -c 14 /dev/vda; dd if=/dev/vda bs=1 skip=1048576 count=7 2>/dev/null"
            assert await target.vms.exec(id, read) == "from the imagewritten"
            await target.vms.exec(id, "printf again__ | dd of=/dev/vda bs=1 seek=1048576 conv=fsync 2>/dev/null")
