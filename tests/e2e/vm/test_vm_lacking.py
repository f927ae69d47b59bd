"""Guests that cannot use what they are given: nothing is reported that they do not have, and the reason names what is
missing."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from tests.vms import Vms, guest_archive, logged, needs_vms, serving, until

pytestmark = needs_vms
LINE = "console=ttyS0 quiet panic=-1 no_timer_check swiotlb=512"
ONLINE, OFFLINE = f"{LINE} memhp_default_state=online_movable", f"{LINE} memhp_default_state=offline"
HANG = "(sleep 1; echo c >/proc/sysrq-trigger) >/dev/null 2>&1 &"
"""Without a driver for the panic device, and without a reboot, nobody hears of it."""


async def boot(vms: Vms, folder: Path, cmdline: str) -> str:
    id = await vms.run("guest", folder=folder, cmdline=cmdline)

    async def ready() -> bool:
        return "PODFIT-GUEST-READY" in logged(folder / "vm/0.log")

    await until(ready, 180)
    return id


async def refused(vms: Vms, id: str, cpus: int, memory: int) -> str:
    """Why, once the runtime knows: a guest that hangs is waited for."""
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


async def test_the_agent_brings_memory_online_that_the_kernel_leaves_offline(tmp_path: Path) -> None:
    async with serving(tmp_path / "vm", guest_archive(tmp_path)) as (_, vms):
        id = await boot(vms, tmp_path / "logs", OFFLINE)
        await vms.booted(id)
        before = (await vms.guest(id))[1]
        await vms.resize(id, 1, 384)
        assert await vms.size(id) == (1, 384)
        assert (await vms.guest(id))[1] - before > 110
        await vms.resize(id, 1, 256)
        assert await vms.size(id) == (1, 256)


@pytest.mark.parametrize(
    ("cmdline", "words"),
    [
        (f"{OFFLINE} podfit.agent=off", ("does not use 128 MiB", "memhp_default_state", "qemu-guest-agent")),
        (f"{ONLINE} acpi_no_memhotplug", ("does not see 128 MiB", "no memory hotplug")),
        (f"{ONLINE} podfit.agent=off podfit.balloon=off", ("nobody knows", "balloon driver", "qemu-guest-agent")),
    ],
    ids=["offline and no agent", "no memory hotplug", "neither agent nor balloon"],
)
async def test_memory_that_a_guest_does_not_use_is_not_reported_as_its_own(
    tmp_path: Path, cmdline: str, words: tuple[str, ...]
) -> None:
    async with serving(tmp_path / "vm", guest_archive(tmp_path)) as (_, vms):
        id = await boot(vms, tmp_path / "logs", cmdline)
        if "podfit.agent=off" not in cmdline:
            await vms.booted(id)
        why = await refused(vms, id, 1, 384)
        assert all(word in why for word in words), why


async def test_vcpus_that_a_guest_does_not_use_are_not_reported_as_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path / "vm", guest_archive(tmp_path)) as (_, vms):
        id = await boot(vms, tmp_path / "logs", f"{ONLINE} nr_cpus=1")
        await vms.booted(id)
        why = await refused(vms, id, 2, 256)
        assert "shows 1 of its 2 vCPUs" in why and "CPU hotplug" in why


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
