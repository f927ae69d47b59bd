"""Reads the size recorded in the metadata of a libvirt domain."""

from __future__ import annotations

from xml.etree import ElementTree

from podfit.vm.decide.conversions import GuestSettings


def settings_in(text: str) -> GuestSettings:
    element = ElementTree.fromstring(text)

    def number(name: str) -> int | None:
        value = element.get(name)
        return None if value is None else int(value)

    return GuestSettings(
        vcpus=int(element.get("vcpus", "0")),
        shares=number("shares"),
        quota=number("quota"),
        period=number("period"),
        memory_bytes=number("memory_bytes"),
        cpuset_cpus=element.get("cpuset_cpus", ""),
        cpuset_mems=element.get("cpuset_mems", ""),
    )
