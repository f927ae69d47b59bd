"""Computes which memory devices a VM gains or loses to reach a size, and how the balloon corrects the difference.

Devices have fixed sizes, so their sum is at least the requested size, and the balloon takes back the excess. A guest
can therefore have every size in whole MiB. All numbers are MiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from podfit.vm.decide.layout import DIMM, Layout
from podfit.vm.decide.refusals import OutOfSlots

SIZES = (128, 512, 1024, 2048)
VIRTIO_BLOCK_MIB = 2


@dataclass(frozen=True)
class Device:
    """A plugged DIMM. `slot` grows with every device, so a larger one is newer."""

    slot: int
    size: int
    node: int = 0
    movable: bool = True
    """False if the guest has the device in a zone that cannot be vacated."""


@dataclass(frozen=True)
class DeviceChanges:
    attach: tuple[tuple[int, int], ...] = ()
    """(size, node) of each new device."""
    detach: tuple[Device, ...] = ()
    balloon: int = 0
    """The final size of the balloon."""
    virtio: int | None = None
    """The size to request from the virtio-mem device; None for DIMMs."""


@dataclass(frozen=True)
class Memory:
    """The memory of a VM in QEMU."""

    boot: int
    devices: tuple[Device, ...] = ()
    balloon: int = 0
    """The current size of the balloon."""
    virtio: int = 0
    """The currently plugged size of the virtio-mem device."""

    @property
    def total(self) -> int:
        return self.boot + sum(device.size for device in self.devices) + self.virtio

    @property
    def guest(self) -> int:
        """The guest's actual memory."""
        return self.total - self.balloon

    @property
    def plugged(self) -> int:
        return self.total - self.boot

    def usable(self, unused: int) -> int:
        """The memory that the guest has and uses. `unused`: plugged memory whose use is unconfirmed, recorded before it
        is plugged."""
        return self.guest - min(unused, self.plugged)


def plan(layout: Layout, memory: Memory, target: int) -> DeviceChanges:
    """The steps from the current state to the target. Raises OutOfSlots if there are not enough slots."""
    if layout.device != DIMM:
        return _virtio_plan(layout, memory, target)
    if target > memory.total:
        free, room = layout.slots - len(memory.devices), layout.domain_max_mib - memory.total
        sizes = grow(target - memory.total, free, room, layout.reach_mib - memory.total)
        nodes = _nodes(layout, memory, sizes)
        return DeviceChanges(attach=tuple(zip(sizes, nodes, strict=True)), balloon=memory.total + sum(sizes) - target)
    gone = shrink(memory.total - target, memory.devices)
    return DeviceChanges(detach=gone, balloon=memory.total - sum(device.size for device in gone) - target)


def grow(missing: int, free_slots: int, room: int, later: int = 0) -> tuple[int, ...]:
    """Devices whose sum is at least the missing amount, and exceeds it by no more than the balloon can take back.

    Small devices are unplugged more easily, so the smallest are chosen that leave half of the free slots for later. If
    possible, the slots that remain suffice for `later`: how far the VM may grow in all. `room` is how much more the VM
    may have in devices.
    """
    units = -(-missing // SIZES[0]) * SIZES[0]
    wanted = min(later, free_slots * SIZES[-1])
    for most, reach in ((-(-free_slots // 2), wanted), (free_slots, wanted), (free_slots, 0)):
        for largest in SIZES:
            sizes = _filled(units, largest)
            if len(sizes) <= most and _reach(sizes, free_slots) >= reach:
                return sizes
    # The slots do not suffice for the exact sum: slightly larger devices replace many small ones.
    whole, rest = divmod(units, SIZES[-1])
    if whole < free_slots:
        sizes = (SIZES[-1],) * whole + _least_sum(rest, free_slots - whole)
        if sum(sizes) <= room:
            return sizes
    raise OutOfSlots(
        f"{missing} MiB more need more memory devices than the {free_slots} free slots of this VM can hold; "
        "reduce its memory first, which frees slots, or set the pod annotation podfit.dev/vm-slots and recreate the pod"
    )


def _reach(sizes: Sequence[int], free_slots: int) -> int:
    """The largest possible growth that begins with these devices."""
    return sum(sizes) + (free_slots - len(sizes)) * SIZES[-1]


def _filled(units: int, largest: int) -> tuple[int, ...]:
    sizes: list[int] = []
    for size in reversed(SIZES[: SIZES.index(largest) + 1]):
        count, units = divmod(units, size)
        sizes += [size] * count
    return tuple(sizes)


def _least_sum(rest: int, slots: int) -> tuple[int, ...]:
    """The smallest sum of at most `slots` devices that reaches the rest; a single largest device always does."""
    sums = (
        sizes for count in range(1, min(slots, len(SIZES)) + 1) for sizes in combinations_with_replacement(SIZES, count)
    )
    return min((sizes for sizes in sums if sum(sizes) >= rest), key=lambda sizes: (sum(sizes), len(sizes)))


def shrink(excess: int, devices: Sequence[Device]) -> tuple[Device, ...]:
    """Devices to detach: movable before others, newest first, together no more than the excess."""
    gone: list[Device] = []
    for device in sorted(devices, key=lambda device: (not device.movable, -device.slot)):
        if device.size <= excess:
            gone.append(device)
            excess -= device.size
    return tuple(gone)


def _nodes(layout: Layout, memory: Memory, sizes: Sequence[int]) -> list[int]:
    """The NUMA cell of each new device: the requested one, or the one with the least memory."""
    if layout.node is not None:
        return [layout.node] * len(sizes)
    cells = {cell: layout.cell_memory(cell) for cell in range(layout.cells)}
    for device in memory.devices:
        cells[device.node] = cells.get(device.node, 0) + device.size
    chosen = []
    for size in sizes:
        cell = min(cells, key=lambda cell: (cells[cell], cell))
        cells[cell] += size
        chosen.append(cell)
    return chosen


def _virtio_plan(layout: Layout, memory: Memory, target: int) -> DeviceChanges:
    above = max(0, target - memory.boot)
    requested = -(-above // VIRTIO_BLOCK_MIB) * VIRTIO_BLOCK_MIB
    return DeviceChanges(virtio=requested, balloon=memory.boot + requested - target)
