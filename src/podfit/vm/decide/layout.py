"""Everything that is fixed when a VM is defined: its maxima, memory slots, NUMA cells, and the kind of its memory
devices.

Pod annotations set these values; without annotations a VM can grow to four times its size. Page tables for plugged
memory come out of the boot memory: 64 bytes for each page of 4 KiB, so sixteen times the boot memory costs a quarter of
it. So does the kernel's data for each vCPU that may be plugged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from podfit.api.pods.machines import (
    CARRIED,
    CELL_MIB,
    CELLS,
    DEVICE,
    FIRMWARE,
    LARGEST_DEVICE_MIB,
    MAX_MEMORY,
    MAX_VCPUS,
    NODE,
    SLOTS,
    VCPU_MIB,
)
from podfit.api.quantity import Quantity, QuantityError
from podfit.vm.decide.refusals import BeyondMaximum, Invalid
from podfit.vm.decide.sizes import MIB, Size

DIMM, VIRTIO_MEM = "dimm", "virtio-mem"
BIOS, UEFI = "bios", "uefi"

GROWTH = 4
MOST_VCPUS = 255
LEAST_SLOTS, MOST_SLOTS = 16, 255
SHARED_REGIONS = 32
"""virtiofsd maps at most so many regions of the guest's memory: each NUMA cell's, one more if boot memory reaches above
the PCI devices, and each memory device's."""
MOST_CELLS = 64
UNIT_MIB = 128
"""The smallest memory device; the maximum is rounded up to a multiple of it."""


@dataclass(frozen=True)
class Layout:
    boot: Size
    max_vcpus: int
    max_memory_mib: int
    slots: int = LEAST_SLOTS
    cells: int = 1
    node: int | None = None
    """The cell of plugged memory; None: the cell with the least memory."""
    device: str = DIMM
    firmware: str = BIOS

    @property
    def domain_max_mib(self) -> int:
        """The domain's maximum in devices: more than the guest gets, because the balloon takes the rest back."""
        return self.max_memory_mib + LARGEST_DEVICE_MIB

    @property
    def reach_mib(self) -> int:
        """How far memory can grow: to the maximum, if the slots suffice for it."""
        return min(self.max_memory_mib, self.boot.memory_mib + self.slots * LARGEST_DEVICE_MIB)

    def cell_memory(self, cell: int) -> int:
        """The boot memory of a cell in MiB; the remainder belongs to the first cell."""
        share, rest = divmod(self.boot.memory_mib, self.cells)
        return share + (rest if cell == 0 else 0)

    def cell_vcpus(self, cell: int) -> tuple[int, int]:
        """The first and the last vCPU of a cell."""
        share, rest = divmod(self.max_vcpus, self.cells)
        first = cell * share + min(cell, rest)
        return first, first + share + (1 if cell < rest else 0) - 1

    def check(self, size: Size) -> None:
        """Raises BeyondMaximum for a size that this VM cannot have while it runs."""
        if size.vcpus > self.max_vcpus:
            raise BeyondMaximum(
                f"{size.vcpus} vCPUs are more than the {self.max_vcpus} this VM was defined for; "
                f"set the pod annotation {MAX_VCPUS} and recreate the pod"
            )
        if size.memory_mib > self.max_memory_mib:
            raise BeyondMaximum(
                f"{size.memory_mib} MiB are more than the {self.max_memory_mib} MiB this VM was defined for; "
                f"set the pod annotation {MAX_MEMORY} (at most {CARRIED} times the memory it starts with) "
                "and recreate the pod"
            )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Layout:
        return Layout(**{**data, "boot": Size(**data["boot"])})


def layout_of(size: Size, annotations: Mapping[str, str], shares_memory: bool = False) -> Layout:
    """`shares_memory`: the VM has volumes, whose virtiofsd maps its memory. Raises Invalid for annotations that cannot
    be honoured."""
    cells = _cells(size, annotations)
    most_slots = max(SHARED_REGIONS - cells - 1, 1) if shares_memory else MOST_SLOTS
    device = _choice(annotations, DEVICE, (DIMM, VIRTIO_MEM))
    max_memory = _max_memory(size, annotations)
    return Layout(
        boot=size,
        max_vcpus=max(_max_vcpus(size, annotations), cells),
        max_memory_mib=max_memory,
        slots=min(_slots(max_memory - size.memory_mib, annotations), most_slots),
        cells=cells,
        node=_node(cells, annotations),
        device=device,
        firmware=_choice(annotations, FIRMWARE, (BIOS, UEFI)),
    )


def _cells(size: Size, annotations: Mapping[str, str]) -> int:
    cells = _number(annotations, CELLS, 1, MOST_CELLS, 1)
    if cells > 1 and size.memory_mib < cells * CELL_MIB:
        raise Invalid(
            f"annotation {CELLS}: {cells} cells need at least {cells * CELL_MIB} MiB of memory, {CELL_MIB} MiB each; "
            f"the memory limit is {size.memory_mib} MiB"
        )
    return cells


def _node(cells: int, annotations: Mapping[str, str]) -> int | None:
    if NODE not in annotations:
        return None
    node = _number(annotations, NODE, 0, MOST_CELLS - 1, 0)
    if node >= cells:
        raise Invalid(f"annotation {NODE}: the VM has no cell {node}, because {CELLS} is {cells}; cells count from 0")
    return node


def _max_vcpus(size: Size, annotations: Mapping[str, str]) -> int:
    carried = size.memory_mib // VCPU_MIB
    if size.vcpus > carried:
        raise Invalid(
            f"{size.vcpus} vCPUs need at least {size.vcpus * VCPU_MIB} MiB of memory; "
            f"the memory limit is {size.memory_mib} MiB"
        )
    most = _number(annotations, MAX_VCPUS, size.vcpus, MOST_VCPUS, min(size.vcpus * GROWTH, MOST_VCPUS, carried))
    if most > carried:
        raise Invalid(
            f"annotation {MAX_VCPUS}: a VM that starts with {size.memory_mib} MiB can carry at most {carried} vCPUs, "
            f"not {most}; start it with a larger memory limit"
        )
    return most


def _max_memory(size: Size, annotations: Mapping[str, str]) -> int:
    carried = size.memory_mib * CARRIED
    text = annotations.get(MAX_MEMORY)
    if text is None:
        return _rounded(min(size.memory_mib * GROWTH, carried))
    try:
        requested = -(-Quantity.parse(text).nanos // (10**9 * MIB))
    except QuantityError as error:
        raise Invalid(f"annotation {MAX_MEMORY}: {text!r}: {error}") from error
    if requested < size.memory_mib:
        raise Invalid(f"annotation {MAX_MEMORY}: {text} is less than the memory limit of {size.memory_mib} MiB")
    if requested > carried:
        raise Invalid(
            f"annotation {MAX_MEMORY}: a VM that starts with {size.memory_mib} MiB can carry at most {carried} MiB, "
            f"not {text}; start it with a larger memory limit"
        )
    return _rounded(requested)


def _slots(growth: int, annotations: Mapping[str, str]) -> int:
    """By default enough slots to grow by the smallest devices only: the slots of a VM that grows in small steps last
    until it has its maximum."""
    enough = min(max(-(-growth // UNIT_MIB), LEAST_SLOTS), MOST_SLOTS)
    return _number(annotations, SLOTS, 1, MOST_SLOTS, enough)


def _rounded(memory: int) -> int:
    return -(-memory // UNIT_MIB) * UNIT_MIB


def _number(annotations: Mapping[str, str], name: str, least: int, most: int, default: int) -> int:
    text = annotations.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise Invalid(f"annotation {name}: {text!r} is not a whole number from {least} to {most}")
    return int(text)


def _choice(annotations: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    text = annotations.get(name, choices[0])
    if text not in choices:
        raise Invalid(f"annotation {name}: {text!r} must be one of {', '.join(choices)}")
    return text
