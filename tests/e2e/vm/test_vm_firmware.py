"""A VM that starts with UEFI instead of a BIOS."""

from __future__ import annotations

import contextlib
from pathlib import Path

import grpc
import pytest
from tests.vms import guest_archive, needs_vms, serving, until

FIRMWARE = Path("/usr/share/qemu/firmware")
pytestmark = [
    needs_vms,
    pytest.mark.slow,
    pytest.mark.skipif(not list(FIRMWARE.glob("*edk2-x86_64*.json")), reason="no UEFI firmware (Debian: ovmf)"),
]
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


async def test_a_vm_with_uefi_boots_is_resized_and_keeps_its_size_over_a_reboot(tmp_path: Path) -> None:
    async with serving(tmp_path / "vm", guest_archive(tmp_path)) as (runtime, vms):
        id = await vms.run("uefi", firmware="uefi")
        await vms.booted(id, 300)
        assert await vms.exec(id, "[ -d /sys/firmware/efi ] && echo efi") == "efi\n"
        boot = await vms.exec(id, BOOT_ID)
        for cpus, memory in ((1, 384), (2, 384), (4, 700), (1, 256), (2, 384)):
            await vms.resize(id, cpus, memory)
            assert await vms.size(id) == (cpus, memory)
            assert (await vms.guest(id))[0] == cpus
        assert await vms.exec(id, BOOT_ID) == boot, "no resize restarts the guest"

        await runtime.lives.machine(runtime.container(id)).reset()

        async def rebooted() -> bool:
            with contextlib.suppress(grpc.aio.AioRpcError):
                return await vms.exec(id, BOOT_ID) != boot and (await vms.guest(id))[0] == 2
            return False

        await until(rebooted, 300)
        assert await vms.size(id) == (2, 384)
