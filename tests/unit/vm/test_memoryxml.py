"""Memory devices in libvirt's XML."""

from __future__ import annotations

import pytest

from podfit.vm.decide.devices import Device
from podfit.vm.machines.memoryxml import counted, dimm_xml, requested_mib, requesting, virtio_xml


def domain(*devices: str) -> str:
    return f"<domain><devices>{''.join(devices)}</devices></domain>"


def test_devices_are_counted_by_size_and_cell() -> None:
    devices = [Device(0, 128), Device(1, 128), Device(2, 128, node=1), Device(3, 512)]
    assert counted(devices) == {(128, 0): 2, (128, 1): 1, (512, 0): 1}


def test_a_different_size_is_requested_from_the_existing_device() -> None:
    text = domain(dimm_xml(128, 0), virtio_xml(767, 64, 1))
    assert requested_mib(text) == 64
    changed = requesting(text, 130)
    assert requested_mib(domain(changed)) == 130
    assert "<node>1</node>" in changed and "768" in changed, "an odd size is rounded up to whole blocks"


def test_a_domain_without_virtio_mem_has_none_to_ask() -> None:
    assert requested_mib(domain(dimm_xml(128, 0))) is None
    with pytest.raises(LookupError):
        requesting(domain(), 2)
