"""Memory blocks, the units in which a guest counts its memory: finds those that belong to plugged devices, and those
that are unused."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from podfit.vm.decide.devices import Device


@dataclass(frozen=True)
class Region:
    """A virtio-mem device in the guest's memory. The guest's driver plugs parts of it, and exposes the blocks that have
    a plugged part."""

    base: int
    """The address, in bytes."""
    size: int
    """The maximum size, in MiB."""
    plugged: int
    """The current size, in MiB."""


@dataclass(frozen=True)
class Unused:
    """Plugged devices, or parts of plugged devices, that the guest does not use."""

    offline: tuple[int, ...] = ()
    """Blocks that the guest lists, but has not brought online."""
    hidden: tuple[int, ...] = ()
    """Blocks that the guest does not list."""
    partial: tuple[int, ...] = ()
    """Blocks of a virtio-mem device that the guest has not brought online, and which may be partly plugged."""
    partial_mib: int = 0
    """The maximum size of what is plugged in those blocks."""
    unplaced_mib: int = 0
    """Devices whose address is unknown: whether the guest uses them is unknown, too."""
    block_mib: int = 0

    @property
    def offline_mib(self) -> int:
        return len(self.offline) * self.block_mib + self.partial_mib

    @property
    def hidden_mib(self) -> int:
        return len(self.hidden) * self.block_mib

    @property
    def mib(self) -> int:
        return self.offline_mib + self.hidden_mib + self.unplaced_mib


def blocks_of(device: Device, base: int, block: int) -> range:
    """The guest's block numbers of a device. `base` and `block` are bytes."""
    return range(base // block, (base + (device.size << 20)) // block)


def in_zones(
    devices: Iterable[Device], bases: Mapping[int, int | None], fixed: Collection[int], block: int
) -> tuple[Device, ...]:
    """The devices, with those that contain a `fixed` block marked as not movable. `bases`: their addresses, by slot."""
    found = []
    for device in devices:
        base = bases.get(device.slot)
        held = base is not None and any(number in fixed for number in blocks_of(device, base, block))
        found.append(replace(device, movable=not held))
    return tuple(found)


def unused(
    devices: Iterable[tuple[Device, int | None]], online: Mapping[int, bool], block: int, region: Region | None = None
) -> Unused:
    """The devices, or parts of them, that the guest does not use. `devices` have their addresses in the guest's memory;
    `online`: the guest's blocks."""
    placed = [(device, base) for device, base in devices if base is not None]
    numbers = [number for device, base in placed for number in blocks_of(device, base, block)]
    partial = [number for number in _blocks_in(region, block) if online.get(number) is False]
    return Unused(
        offline=tuple(number for number in numbers if online.get(number) is False),
        hidden=tuple(number for number in numbers if number not in online),
        partial=tuple(partial),
        partial_mib=min(region.plugged, len(partial) * block >> 20) if region is not None else 0,
        unplaced_mib=sum(device.size for device, base in devices if base is None),
        block_mib=block >> 20,
    )


def _blocks_in(region: Region | None, block: int) -> range:
    if region is None:
        return range(0)
    return range(region.base // block, -(-(region.base + (region.size << 20)) // block))
