"""A VM as libvirt's domain XML."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from podfit.vm.decide.layout import BIOS, UEFI, Layout
from podfit.vm.decide.sizes import Size
from podfit.vm.machines.definition import Definition, domain_xml


def os_of(firmware: str, accelerated: bool) -> ElementTree.Element:
    layout = Layout(Size(1, 256), 4, 1024, firmware=firmware)
    vm = Definition("vm", "uuid", layout, "log", "socket", "<size/>", accelerated=accelerated)
    found = ElementTree.fromstring(domain_xml(vm)).find("os")
    assert found is not None
    return found


@pytest.mark.parametrize("accelerated", [True, False])
def test_uefi_is_the_firmware_without_secure_boot(accelerated: bool) -> None:
    uefi, bios = os_of(UEFI, accelerated), os_of(BIOS, accelerated)
    assert uefi.get("firmware") == "efi"
    assert [item.attrib for item in uefi.iterfind("firmware/feature")] == [{"name": "secure-boot", "enabled": "no"}]
    assert bios.get("firmware") is None and bios.find("firmware") is None
