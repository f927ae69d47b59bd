"""Shrinking never harms the guest, and an update in progress is neither lost nor repeated."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest
from tests.vms import Vms, guest_archive, needs_vms, process, serving, until

pytestmark = needs_vms
HOG = "mount -t tmpfs -o size=600m hog /mnt && dd if=/dev/zero of=/mnt/hog bs=1M count=%d 2>/dev/null; sync"


async def refused_shrink(vms: Vms, id: str, memory: int) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await vms.resize(id, 1, memory)
    assert refused.value.code() is grpc.StatusCode.ABORTED
    return refused.value.details() or ""


async def stays_until_it_is_free(vms: Vms, id: str) -> None:
    """A guest of 640 MiB with a file of 330 MiB in its memory."""
    assert "still in use by the guest" in await refused_shrink(vms, id, 256)
    reported = (await vms.size(id))[1]
    assert 256 < reported < 640
    assert abs((await vms.guest(id))[1] - reported) < 60
    assert "Killed process" not in await vms.exec(id, "dmesg")
    assert await vms.exec(id, "stat -c %s /mnt/hog") == f"{330 << 20}\n"
    await vms.exec(id, "umount /mnt")

    async def shrunk() -> bool:
        return (await vms.size(id))[1] == 256

    await until(shrunk, 90)


async def test_memory_in_use_stays_until_the_guest_frees_it_and_a_newer_target_takes_over(tmp_path: Path) -> None:
    async with serving(tmp_path, guest_archive(tmp_path)) as (runtime, vms):
        id = await vms.run("busy")
        await vms.booted(id)
        await vms.resize(id, 1, 640)
        await vms.exec(id, HOG % 330)
        await refused_shrink(vms, id, 256)
        attempts = runtime.container(id).update.attempts
        await refused_shrink(vms, id, 256)
        assert runtime.container(id).update.attempts == attempts, "a repeated target is absorbed"
        older = asyncio.ensure_future(vms.resize(id, 2, 256))

        async def accepted() -> bool:
            return runtime.container(id).update.target.vcpus == 2

        await until(accepted)
        await vms.resize(id, 2, 768)
        await asyncio.gather(older, return_exceptions=True)
        assert await vms.size(id) == (2, 768) and runtime.container(id).update is None
        await vms.resize(id, 1, 640)
        await stays_until_it_is_free(vms, id)


async def test_memory_of_virtio_mem_in_use_stays_until_the_guest_frees_it(tmp_path: Path) -> None:
    async with serving(tmp_path, guest_archive(tmp_path)) as (_, vms):
        id = await vms.run("busy", memory_="virtio-mem")
        await vms.booted(id)
        await vms.resize(id, 1, 640)
        await vms.exec(id, HOG % 330)
        await stays_until_it_is_free(vms, id)


async def test_a_killed_runtime_resumes_the_update(tmp_path: Path) -> None:
    archive, folder = guest_archive(tmp_path), tmp_path / "data"
    async with process(folder, "--image-archive", str(archive)) as first:
        vms = Vms(folder / "vm.sock")
        id = await vms.run("interrupted")
        await vms.booted(id)
        await vms.resize(id, 1, 640)
        await vms.exec(id, HOG % 330)
        await refused_shrink(vms, id, 256)
        await vms.exec(id, "umount /mnt")
        first.kill()
        await vms.close()
    async with process(folder):
        vms = Vms(folder / "vm.sock")

        async def shrunk() -> bool:
            return await vms.size(id) == (1, 256)

        await until(shrunk, 60)
        await vms.remove_all()
        await vms.close()


async def test_a_guest_without_an_agent_grows_and_shrinks_by_what_its_balloon_reports(tmp_path: Path) -> None:
    async with serving(tmp_path, guest_archive(tmp_path)) as (runtime, vms):
        line = "console=ttyS0 quiet panic=-1 swiotlb=512 memhp_default_state=online_movable podfit.agent=off"
        id = await vms.run("mute", cpus=2, cmdline=line)
        machine = runtime.lives.machine(runtime.container(id))

        async def reports() -> bool:
            return "usable" in await machine.statistics()

        await until(reports, 60)
        for memory in (384, 300):
            await vms.resize(id, 2, memory)
            assert await vms.size(id) == (2, memory)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await vms.resize(id, 1, 300)
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "qemu-guest-agent" in (refused.value.details() or "")
        assert await vms.size(id) == (2, 300)
