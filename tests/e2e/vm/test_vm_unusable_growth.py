"""Guests that cannot use their new vCPUs or memory: the status does not count them, and the reason names what
the guest lacks.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.vms import Vms, guest_archive, logged, needs_vms, serving, until

pytest.importorskip("libvirt", reason="libvirt-python is not installed")

from podfit.vm.machines.guest import AgentFailed, GuestAgent

pytestmark = needs_vms
LINE = "console=ttyS0 quiet panic=-1 no_timer_check swiotlb=512"
ONLINE, OFFLINE = f"{LINE} memhp_default_state=online_movable", f"{LINE} memhp_default_state=offline"
HANG = "(sleep 1; echo c >/proc/sysrq-trigger) >/dev/null 2>&1 &"
"""Without a driver for the panic device, and without a reboot, the panic is not reported."""


async def boot(vms: Vms, folder: Path, cmdline: str, device: str = "dimm") -> str:
    id = await vms.run(folder.name, folder=folder, cmdline=cmdline, memory_=device)

    async def ready() -> bool:
        return "PODFIT-GUEST-READY" in logged(folder / "vm/0.log")

    await until(ready, 180)
    return id


async def refused(vms: Vms, id: str, cpus: int, memory: int) -> str:
    """The reason, once the runtime knows it: it waits for a guest that hangs."""
    found = ""

    async def known() -> bool:
        nonlocal found
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await vms.resize(id, cpus, memory)
        found = error.value.details() or ""
        return error.value.code() is grpc.StatusCode.FAILED_PRECONDITION

    await until(known, 60)
    assert await vms.size(id) == (1, 256), "the guest has what it had"
    return found


class Failing:
    """An agent that answers too late, as often as configured."""

    def __init__(self, patch: pytest.MonkeyPatch, name: str) -> None:
        self.times = self.failed = 0
        real = getattr(GuestAgent, name)

        async def sometimes(*arguments: Any) -> Any:
            if self.failed < self.times:
                self.failed += 1
                raise AgentFailed("the guest's agent (qemu-guest-agent) does not answer")
            return await real(*arguments)

        patch.setattr(GuestAgent, name, sometimes)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter timeouts, for guests that never do what the runtime waits for."""
    for name, seconds in (("SEEN_S", 2.0), ("REPORTED_S", 3.0), ("SILENT_S", 4.0)):
        monkeypatch.setattr(f"podfit.vm.resizing.online.{name}", seconds)


async def test_the_agent_brings_memory_online_that_the_kernel_leaves_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting, looking = Failing(monkeypatch, "set_blocks"), Failing(monkeypatch, "block_size")
    async with serving(tmp_path / "vm", guest_archive(tmp_path)) as (runtime, vms):
        id = await boot(vms, tmp_path / "logs", OFFLINE)
        await vms.booted(id)
        before = (await vms.guest(id))[1]
        await vms.resize(id, 1, 384)
        assert await vms.size(id) == (1, 384)
        assert (await vms.guest(id))[1] - before > 110, await vms.exec(id, "cat /proc/uptime")

        # After a reboot it is offline again, and does not count until the agent reports it.
        looking.times = 2
        await runtime.lives.machine(runtime.container(id)).reset()

        async def doubted() -> bool:
            return looking.failed > 0 and await vms.size(id) == (1, 256)

        async def has_all_of_it() -> bool:
            with contextlib.suppress(grpc.aio.AioRpcError):
                return await vms.size(id) == (1, 384) and (await vms.guest(id))[1] - before > 110
            return False

        await until(doubted, 120)
        await until(has_all_of_it, 120)

        setting.times = 1
        await vms.resize(id, 1, 256)
        assert setting.failed == 1 and await vms.size(id) == (1, 256)
        assert abs((await vms.guest(id))[1] - before) <= 8, "the balloon took what the device could not give"


@pytest.mark.usefixtures("impatient")
async def test_a_guest_without_hotplug_reports_its_previous_size(tmp_path: Path) -> None:
    async with serving(tmp_path / "vm", guest_archive(tmp_path)) as (_, vms):
        id = await boot(vms, tmp_path / "logs", f"{ONLINE} acpi_no_memhotplug nr_cpus=1")
        await vms.booted(id)
        before = await vms.guest(id)
        why = await refused(vms, id, 1, 384)
        assert "does not see 128 MiB" in why and "no memory hotplug" in why, why
        await vms.resize(id, 1, 256)
        assert before == await vms.guest(id), "the balloon does not take what the guest never had"
        why = await refused(vms, id, 2, 256)
        assert "shows 1 of its 2 vCPUs" in why and "CPU hotplug" in why, why


@pytest.mark.usefixtures("impatient")
async def test_memory_left_offline_by_a_guest_without_an_agent_is_not_reported(tmp_path: Path) -> None:
    async with serving(tmp_path / "vm", guest_archive(tmp_path)) as (runtime, vms):
        id = await boot(vms, tmp_path / "logs", f"{OFFLINE} podfit.agent=off")
        why = await refused(vms, id, 1, 384)
        assert all(word in why for word in ("does not use 128 MiB", "memhp_default_state", "qemu-guest-agent")), why
        await vms.resize(id, 1, 256)
        assert "it is unknown whether the guest uses all of its 2 vCPUs" in await refused(vms, id, 2, 256)

        async def tried_again() -> bool:
            update = runtime.container(id).update
            return update is None or update.attempts > 1

        await until(tried_again)
        assert await vms.size(id) == (1, 256), "they stay in doubt"


async def test_virtio_mem_that_the_kernel_leaves_offline_counts_when_the_agent_has_brought_it_online(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path / "vm", guest_archive(tmp_path)) as (runtime, vms):
        mute, id = await asyncio.gather(
            boot(vms, tmp_path / "mute", f"{OFFLINE} podfit.agent=off", "virtio-mem"),
            boot(vms, tmp_path / "able", OFFLINE, "virtio-mem"),
        )
        why = await refused(vms, mute, 1, 384)
        assert "does not use 128 MiB" in why and "memhp_default_state" in why, why
        await vms.resize(mute, 1, 256)
        assert await vms.size(mute) == (1, 256)

        await vms.booted(id)
        before = (await vms.guest(id))[1]
        for memory in (386, 300):
            await vms.resize(id, 1, memory)
            assert await vms.size(id) == (1, memory)
            assert abs((await vms.guest(id))[1] - before - (memory - 256)) <= 20

        # After a reboot its driver plugs it again, and it is offline again.
        await runtime.lives.machine(runtime.container(id)).reset()

        async def has_all_of_it() -> bool:
            with contextlib.suppress(grpc.aio.AioRpcError):
                return await vms.size(id) == (1, 300) and (await vms.guest(id))[1] - before > 30
            return False

        await until(has_all_of_it, 120)


@pytest.mark.usefixtures("impatient")
async def test_nothing_is_known_of_a_guest_with_neither_agent_nor_balloon(tmp_path: Path) -> None:
    async with serving(tmp_path / "vm", guest_archive(tmp_path)) as (_, vms):
        id = await boot(vms, tmp_path / "logs", f"{ONLINE} podfit.agent=off podfit.balloon=off")
        why = await refused(vms, id, 1, 384)
        assert all(word in why for word in ("it is unknown", "balloon statistics", "qemu-guest-agent")), why


@pytest.mark.usefixtures("impatient")
async def test_a_guest_that_hangs_is_said_not_to_respond(tmp_path: Path) -> None:
    async with serving(tmp_path / "vm", guest_archive(tmp_path)) as (_, vms):
        id = await boot(vms, tmp_path / "logs", ONLINE.replace("panic=-1", "panic=0"))
        await vms.booted(id)
        await vms.exec(id, HANG)

        async def hangs() -> bool:
            return "Kernel panic" in logged(tmp_path / "logs/vm/0.log")

        await until(hangs)
        why = await refused(vms, id, 1, 384)
        assert "does not respond" in why or "does not answer" in why, why
