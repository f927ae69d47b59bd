"""Converts limits between the types of the API and those of libvirt, without loss.

The runtime stores every value as in CRI (int64). The domain's definition carries the same values as unsigned or signed
64-bit numbers in its metadata, and memory also as libvirt's own elements, in KiB.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

from podfit.vm.decide.sizes import Limits

NAMESPACE = "https://podfit.dev/vm/1"
_INT64 = (-(1 << 63), (1 << 63) - 1)
_UINT64 = (0, (1 << 64) - 1)


@dataclass(frozen=True)
class GuestSettings:
    """The size in the definition of a domain; None if it is not specified."""

    vcpus: int
    shares: int | None
    quota: int | None
    period: int | None
    memory_bytes: int | None
    cpuset_cpus: str
    cpuset_mems: str


def settings_of(limits: Limits, vcpus: int) -> GuestSettings:
    """Raises OverflowError for a number that does not fit into a domain."""
    return GuestSettings(
        vcpus=_within(vcpus, 0, (1 << 31) - 1),
        shares=_within(limits.cpu_shares, *_UINT64) if limits.cpu_shares else None,
        quota=_within(limits.cpu_quota, *_INT64) if limits.cpu_quota else None,
        period=_within(limits.cpu_period, *_UINT64) if limits.cpu_period else None,
        memory_bytes=_within(limits.memory_bytes, *_INT64) if limits.memory_bytes else None,
        cpuset_cpus=limits.cpuset_cpus,
        cpuset_mems=limits.cpuset_mems,
    )


def limits_of(settings: GuestSettings) -> Limits:
    return Limits(
        cpu_period=settings.period or 0,
        cpu_quota=settings.quota or 0,
        cpu_shares=settings.shares or 0,
        memory_bytes=settings.memory_bytes or 0,
        cpuset_cpus=settings.cpuset_cpus,
        cpuset_mems=settings.cpuset_mems,
    )


def to_xml(settings: GuestSettings) -> str:
    """The element of the domain's metadata."""
    element = ElementTree.Element("size", {"vcpus": str(settings.vcpus)})
    for name in ("shares", "quota", "period", "memory_bytes"):
        value = getattr(settings, name)
        if value is not None:
            element.set(name, str(value))
    element.set("cpuset_cpus", settings.cpuset_cpus)
    element.set("cpuset_mems", settings.cpuset_mems)
    return ElementTree.tostring(element, encoding="unicode")


def cpus_of(text: str) -> set[int]:
    """The CPUs in a list such as 0-2,5."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first:
            found |= set(range(int(first), int(last or first) + 1))
    return found


def _within(value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise OverflowError(f"{value} does not fit between {least} and {most}")
    return value
