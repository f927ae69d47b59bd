"""The life of VMs on real QEMU guests: created, started, listed, stopped, removed."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.e2e.guest import vm_image
from tests.vms import Vms, guest_archive, logged, needs_vms, process, serving, until

from podfit.cri import api_pb2 as cri

pytestmark = needs_vms


async def test_a_vm_boots_runs_commands_logs_its_console_and_shuts_down(tmp_path: Path) -> None:
    async with serving(tmp_path, guest_archive(tmp_path)) as (runtime, vms):
        id = await vms.run("first", folder=tmp_path / "logs")
        assert (await vms.status(id)).state == cri.ContainerState.CONTAINER_RUNNING
        await vms.booted(id)
        assert await vms.exec(id, "hostname") == "first\n"
        log = tmp_path / "logs/vm/0.log"

        async def greeted() -> bool:
            return "PODFIT-GUEST-READY" in logged(log)

        await until(greeted)
        folders = only_qemu_in_its_cgroup(runtime, id)
        await vms.stop(id, grace=20)
        status = await vms.status(id)
        assert (status.state, status.exit_code, status.reason) == (2, 0, "Completed")
        await vms.remove_all()
        assert not any(folder.exists() for folder in folders), "the cgroup goes with the VM"


def only_qemu_in_its_cgroup(runtime: Any, id: str) -> list[Path]:
    container = runtime.container(id)
    pid = runtime.lives.machine(container).pid()
    folders = [point / container.group.lstrip("/") for point in runtime.cgroups._at.values()]
    for folder in folders:
        assert (folder / "cgroup.procs").read_text().split() == [str(pid)]
    return folders


async def received(events: Any, kind: int) -> None:
    """Waits for an event of this kind."""
    async for event in events:
        if event.container_event_type == kind:
            return


async def test_a_killed_qemu_is_reported_at_once_and_leaves_no_zombie(tmp_path: Path) -> None:
    async with serving(tmp_path, guest_archive(tmp_path)) as (runtime, vms):
        events = vms.runtime["GetContainerEvents"](cri.GetEventsRequest())
        id = await vms.run("killed")
        pid = runtime.lives.machine(runtime.container(id)).pid()
        async with asyncio.timeout(60):
            await received(events, cri.ContainerEventType.CONTAINER_STARTED_EVENT)
            os.kill(pid, signal.SIGKILL)
            await received(events, cri.ContainerEventType.CONTAINER_STOPPED_EVENT)
        status = await vms.status(id)
        assert (status.exit_code, status.reason) == (137, "Error") and "QEMU" in status.message
        assert not Path(f"/proc/{pid}").exists()


async def test_a_guest_that_ignores_the_power_button_is_destroyed_after_its_grace_period(tmp_path: Path) -> None:
    async with serving(tmp_path, guest_archive(tmp_path)) as (_, vms):
        id = await vms.run("stubborn", cmdline="console=ttyS0 quiet init=/bin/false acpi=off panic=0")
        await vms.stop(id, grace=1)
        status = await vms.status(id)
        assert (status.state, status.exit_code) == (cri.ContainerState.CONTAINER_EXITED, 137)


async def test_a_guest_that_is_still_booting_is_shut_down_within_its_grace_period(tmp_path: Path) -> None:
    async with serving(tmp_path, guest_archive(tmp_path)) as (_, vms):
        id = await vms.run("hasty")
        await vms.stop(id, grace=120)
        status = await vms.status(id)
        assert (status.exit_code, status.reason) == (0, "Completed")


async def test_the_process_in_which_libvirt_forks_is_free_of_uvloop(tmp_path: Path) -> None:
    """A child that libvirt forks while uvloop starts a process waits for the GIL forever, and libvirt for it."""
    async with process(tmp_path) as running:
        assert "uvloop" not in Path(f"/proc/{running.pid}/maps").read_text()


async def test_a_vm_outlives_its_runtime_and_is_found_again(tmp_path: Path) -> None:
    archive = guest_archive(tmp_path)
    folder = tmp_path / "data"
    async with process(folder, "--image-archive", str(archive)) as first:
        vms = Vms(folder / "vm.sock")
        id = await vms.run("survivor")
        await vms.booted(id)
        first.send_signal(signal.SIGKILL)
        await vms.close()
    async with process(folder):
        vms = Vms(folder / "vm.sock")
        assert (await vms.status(id)).state == cri.ContainerState.CONTAINER_RUNNING
        assert await vms.exec(id, "echo still here") == "still here\n"
        [pid_file] = (folder / "libvirt/run/qemu").glob("podfit-*.pid")
        os.kill(int(pid_file.read_text()), signal.SIGKILL)

        async def ended() -> bool:
            return bool((await vms.status(id)).state == cri.ContainerState.CONTAINER_EXITED)

        await until(ended)
        status = await vms.status(id)
        assert (status.exit_code, status.message) == (255, "QEMU ended unexpectedly")
        await vms.remove_all()
        await vms.close()


async def test_a_guest_writes_to_its_own_overlay_and_never_to_the_image(tmp_path: Path) -> None:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(b"\0" * (8 << 20))
    kernel, initrd = vm_image.guest()
    files = {"/boot/vmlinuz": kernel, "/boot/initrd.img": initrd, "/disk/root.raw": disk}
    labels = {"podfit.dev/vm-cmdline": vm_image.CMDLINE}
    archive = vm_image.oci_archive(tmp_path / "disk.tar", "podfit.dev/disk:1", files, labels)
    async with serving(tmp_path, archive) as (runtime, vms):
        ids = [await vms.run(name, image="podfit.dev/disk:1") for name in ("one", "two")]
        for id in ids:
            await vms.booted(id)
            await vms.exec(id, f"echo {id} | dd of=/dev/vda bs=512 conv=fsync 2>/dev/null")
        for id in ids:
            assert (await vms.exec(id, "head -n1 /dev/vda")).strip() == id
        base = Path(runtime.container(ids[0]).image.disk)
        assert base.read_bytes() == b"\0" * (8 << 20)
        with pytest.raises(grpc.aio.AioRpcError, match="in use"):
            await vms.image["RemoveImage"](cri.RemoveImageRequest(image=cri.ImageSpec(image="podfit.dev/disk:1")))
