"""A VM that starts with UEFI instead of a BIOS."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.vms import guest_archive, needs_vms, serving

FIRMWARE = Path("/usr/share/qemu/firmware")
pytestmark = [
    needs_vms,
    pytest.mark.slow,
    pytest.mark.skipif(not list(FIRMWARE.glob("*edk2-x86_64*.json")), reason="no UEFI firmware (Debian: ovmf)"),
]


async def test_a_vm_boots_with_uefi(tmp_path: Path) -> None:
    async with serving(tmp_path / "vm", guest_archive(tmp_path)) as (_, vms):
        id = await vms.run("uefi", firmware="uefi")
        await vms.booted(id, 300)
        assert await vms.exec(id, "[ -d /sys/firmware/efi ] && echo efi") == "efi\n"
