"""Sizes of running guests: the test cases of the VM design's last section, on real QEMU guests."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.vms import Vms, needs_vms, resources, until

pytest.importorskip("libvirt", reason="libvirt-python is not installed")

from podfit.cri import api_pb2 as cri
from podfit.vm.machines.queries import Queries
from podfit.vm.resizing.memory import VmMemory

pytestmark = [needs_vms, pytest.mark.asyncio(loop_scope="module")]
X, DELTA = 256, 128
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


async def sees(vms: Vms, id: str, cpus: int, memory: int) -> None:
    """The runtime reports the size, and the guest itself counts as much, less what its kernel reserves."""
    assert await vms.size(id) == (cpus, memory)

    async def guest_follows() -> bool:
        seen = await vms.guest(id)
        return seen[0] == cpus and memory - 60 <= seen[1] <= memory

    await until(guest_follows)


async def test_memory_grows_in_steps_and_goes_back(served: tuple[Any, Vms], guest: str) -> None:
    _, vms = served
    id = guest
    await vms.resize(id, 1, 256)
    for memory in (X + DELTA, X, X + DELTA, X + 3 * DELTA, X):
        await vms.resize(id, 1, memory)
        await sees(vms, id, 1, memory)


async def test_vcpus_grow_and_go_back_alone_and_together_with_memory(served: tuple[Any, Vms], guest: str) -> None:
    _, vms = served
    id = guest
    await vms.resize(id, 1, 256)
    for cpus, memory in ((2, X), (1, X), (4, X), (2, X), (1, X), (2, X + DELTA), (4, X + 3 * DELTA), (2, X)):
        await vms.resize(id, cpus, memory)
        await sees(vms, id, cpus, memory)


async def test_every_whole_mib_is_met_by_devices_and_balloon(served: tuple[Any, Vms], guest: str) -> None:
    _, vms = served
    id = guest
    await vms.resize(id, 1, 256)
    for memory in (X + 1, 700, 513, 300, X - 20):
        await vms.resize(id, 1, memory)
        assert await vms.size(id) == (1, memory)


async def test_an_impossible_size_of_a_vm_is_refused_and_changes_nothing(served: tuple[Any, Vms], guest: str) -> None:
    runtime, vms = served
    id = guest
    await vms.resize(id, 1, 256)
    half = resources(1, X)
    half.cpu_quota = 150_000
    request = cri.UpdateContainerResourcesRequest(container_id=id, linux=half)
    with pytest.raises(grpc.aio.AioRpcError) as fraction:
        await vms.runtime["UpdateContainerResources"](request)
    assert fraction.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "only have whole vCPUs" in (fraction.value.details() or "")
    for cpus, memory, annotation in ((5, X, "vm-max-vcpus"), (1, 4 * X + 1, "vm-max-memory")):
        with pytest.raises(grpc.aio.AioRpcError) as beyond:
            await vms.resize(id, cpus, memory)
        assert beyond.value.code() is grpc.StatusCode.OUT_OF_RANGE
        assert annotation in (beyond.value.details() or "")
    assert await vms.size(id) == (1, X) and runtime.container(id).update is None


async def test_movable_devices_are_detached_before_newer_ones_that_hold_kernel_memory(
    served: tuple[Any, Vms], guest: str
) -> None:
    runtime, vms = served
    id = guest
    resized = runtime.resizer.memory(runtime.container(id))
    await vms.resize(id, 1, X)
    await vms.resize(id, 1, X + DELTA)
    [older] = (await resized.actual()).devices
    await vms.exec(id, "echo online_kernel >/sys/devices/system/memory/auto_online_blocks")
    try:
        await vms.resize(id, 1, X + 2 * DELTA)
        _, newer = sorted((await resized.actual()).devices, key=lambda device: device.slot)
        await vms.resize(id, 1, X + DELTA)
        assert [device.slot for device in (await resized.actual()).devices] == [newer.slot] and newer != older
    finally:
        await vms.exec(id, "echo online_movable >/sys/devices/system/memory/auto_online_blocks")


async def test_virtio_mem_meets_every_size_both_ways(served: tuple[Any, Vms]) -> None:
    runtime, vms = served
    async with vms.running("virtio", memory_="virtio-mem") as id:
        await vms.booted(id)
        for memory in (X + DELTA, 701, X + 2, X, X - 21):
            await vms.resize(id, 1, memory)
            assert await vms.size(id) == (1, memory)
        memory = await runtime.resizer.memory(runtime.container(id)).actual()
        assert not memory.devices


async def test_numa_cells_get_memory_where_it_was_requested(served: tuple[Any, Vms]) -> None:
    _, vms = served
    async with vms.running("numa", cpus=1, memory=512, numa_cells="4", numa_node="1") as id:
        await vms.booted(id)
        script = "sed -n 's/.*MemTotal: *\\([0-9]*\\).*/\\1/p' /sys/devices/system/node/node[0-3]/meminfo"
        before = [int(line) >> 10 for line in (await vms.exec(id, script)).split()]
        for memory in (512 + DELTA, 512 + 3 * DELTA, 512):
            await vms.resize(id, 1, memory)
            await sees_cells(vms, id, script, [*before[:1], before[1] + memory - 512, *before[2:]])


async def sees_cells(vms: Vms, id: str, script: str, expected: list[int]) -> None:
    async def placed() -> bool:
        found = [int(line) >> 10 for line in (await vms.exec(id, script)).split()]
        return all(abs(item - wanted) <= 8 for item, wanted in zip(found, expected, strict=True))

    await until(placed)


async def test_the_size_survives_a_reboot_of_the_guest(served: tuple[Any, Vms], guest: str) -> None:
    runtime, vms = served
    id = guest
    await vms.resize(id, 1, 256)
    await vms.resize(id, 3, X + DELTA)
    await vms.resize(id, 2, X + DELTA)
    boot = await vms.exec(id, BOOT_ID)
    await runtime.lives.machine(runtime.container(id)).reset()

    async def rebooted() -> bool:
        with contextlib.suppress(grpc.aio.AioRpcError):
            return await vms.exec(id, BOOT_ID) != boot and (await vms.guest(id))[0] == 2
        return False

    await until(rebooted, 120)
    await sees(vms, id, 2, X + DELTA)


async def test_a_guest_that_boots_during_a_resize_is_examined_after_it(
    served: tuple[Any, Vms], guest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, vms = served
    await vms.resize(guest, 1, X)
    container, examined, real = runtime.container(guest), list[bool](), VmMemory.set

    async def interrupted(memory: VmMemory, now: Any, target: int, booted: bool = False) -> None:
        examined.append(booted)
        await real(memory, now, target, booted)
        if not booted:
            runtime.resizer.agent_is_up(container)

    monkeypatch.setattr(VmMemory, "set", interrupted)
    await vms.resize(guest, 1, X + DELTA)

    async def settled() -> bool:
        return container.update is None

    await until(settled)
    assert examined == [False, True]
    assert await vms.size(guest) == (1, X + DELTA)


def _allowed(pid: int) -> set[str]:
    """The CPUs that each thread of a process may use."""
    lists = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/status")]
    return {line.split()[1] for text in lists for line in text.splitlines() if line.startswith("Cpus_allowed_list")}


async def test_cpusets_hold_for_every_thread_of_qemu_and_in_the_domain(served: tuple[Any, Vms], guest: str) -> None:
    last = (os.cpu_count() or 1) - 1
    whole = f"0-{last}" if last else "0"
    runtime, vms = served
    id = guest
    await vms.resize(id, 1, 256)
    machine = runtime.lives.machine(runtime.container(id))
    for cpus in ("0", whole):
        pinned = resources(1, 256)
        pinned.cpuset_cpus = cpus
        await vms.runtime["UpdateContainerResources"](
            cri.UpdateContainerResourcesRequest(container_id=id, linux=pinned)
        )
        assert (await vms.status(id)).resources.linux.cpuset_cpus == cpus
        assert _allowed(machine.pid()) == {cpus}
        pins = await runtime.hypervisor.on(machine.uuid, lambda domain: domain.vcpuPinInfo())
        assert set(pins) == {tuple(number <= (last if cpus == whole else 0) for number in range(last + 1))}


async def test_a_qemu_that_does_not_respond_is_the_stated_cause_and_hides_no_status(
    served: tuple[Any, Vms], guest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, vms = served
    await vms.resize(guest, 1, 256)
    qemu = runtime.lives.machine(runtime.container(guest)).pid()
    monkeypatch.setattr(runtime.hypervisor, "_queries", Queries(answer_s=0.3))
    os.kill(qemu, signal.SIGSTOP)
    try:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await vms.resize(guest, 1, 384)
        assert refused.value.code() is grpc.StatusCode.ABORTED
        assert "QEMU does not respond" in (refused.value.details() or "")
        assert await vms.size(guest) == (1, 256)
        assert "QEMU does not respond" in (await vms.about(guest))["problem"]
    finally:
        os.kill(qemu, signal.SIGCONT)
    monkeypatch.undo()
    await vms.resize(guest, 1, 384)
    await sees(vms, guest, 1, 384)


async def test_a_vm_out_of_slots_says_which_annotation_to_set(served: tuple[Any, Vms]) -> None:
    _, vms = served
    async with vms.running("full", slots="1", max_memory="4Gi") as id:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await vms.resize(id, 1, 4096)
        assert refused.value.code() is grpc.StatusCode.OUT_OF_RANGE
        assert "podfit.dev/vm-slots" in (refused.value.details() or "")
        assert await vms.size(id) == (1, 256)
