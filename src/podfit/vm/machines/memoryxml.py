"""Converts memory devices to and from libvirt's XML: DIMMs, and the one virtio-mem device. Pure."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable

from podfit.vm.decide.devices import Device
from podfit.vm.decide.layout import VIRTIO_MEM

VIRTIO_ALIAS = "ua-podfit-memory"


def virtio_xml(size: int, requested: int, node: int) -> str:
    return (
        f"<memory model='virtio-mem'><target><size unit='MiB'>{-(-size // 2) * 2}</size><node>{node}</node>"
        f"<block unit='MiB'>2</block><requested unit='MiB'>{requested}</requested></target>"
        f"<alias name='{VIRTIO_ALIAS}'/></memory>"
    )


def dimm_xml(size: int, node: int) -> str:
    return f"<memory model='dimm'><target><size unit='MiB'>{size}</size><node>{node}</node></target></memory>"


def counted(devices: Iterable[Device]) -> dict[tuple[int, int], int]:
    """The number of DIMMs of each size on each NUMA cell."""
    found: dict[tuple[int, int], int] = {}
    for device in devices:
        found[device.size, device.node] = found.get((device.size, device.node), 0) + 1
    return found


def _virtio(text: str) -> tuple[ElementTree.Element, ElementTree.Element] | None:
    """The virtio-mem device of a domain, and the size that is requested from it."""
    for element in ElementTree.fromstring(text).iterfind("devices/memory"):
        requested = element.find("target/requested")
        if element.get("model") == VIRTIO_MEM and requested is not None:
            return element, requested
    return None


def requested_mib(text: str) -> int | None:
    found = _virtio(text)
    return None if found is None else mib_of(found[1])


def requesting(text: str, mib: int) -> str:
    """The device's XML with another requested size."""
    found = _virtio(text)
    if found is None:
        raise LookupError(f"no device {VIRTIO_ALIAS}")
    element, requested = found
    requested.text, requested.attrib["unit"] = str(mib), "MiB"
    return ElementTree.tostring(element, encoding="unicode")


def mib_of(element: ElementTree.Element | None) -> int:
    """The size in MiB. libvirt answers in KiB, whatever unit it was given."""
    if element is None or not element.text:
        return 0
    factor = {"KiB": 1024, "MiB": 1 << 20, "GiB": 1 << 30, "b": 1, "bytes": 1}[element.get("unit", "KiB")]
    return int(element.text) * factor >> 20
