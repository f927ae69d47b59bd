"""The parts of a VM that are fixed when it is defined, and the options in its pod's annotations."""

from __future__ import annotations

import pytest

from podfit.api.pods.machines import CELLS, DEVICE, MAX_MEMORY, MAX_VCPUS, NODE, SLOTS
from podfit.vm.decide.layout import DIMM, VIRTIO_MEM, Layout, layout_of
from podfit.vm.decide.refusals import BeyondMaximum, Invalid
from podfit.vm.decide.sizes import Size

SIZE = Size(2, 1000)


def test_a_vm_can_grow_to_four_times_its_size_unless_annotations_say_otherwise() -> None:
    found = layout_of(SIZE, {})
    assert (found.max_vcpus, found.max_memory_mib, found.device, found.node) == (8, 4096, DIMM, None)


def test_annotations_choose_the_maxima_and_the_devices() -> None:
    chosen = {MAX_VCPUS: "3", MAX_MEMORY: "2000Mi", SLOTS: "4", CELLS: "2", NODE: "1", DEVICE: VIRTIO_MEM}
    found = layout_of(SIZE, chosen)
    assert (found.max_vcpus, found.max_memory_mib, found.slots) == (3, 2048, 4)
    assert (found.cells, found.node, found.device) == (2, 1, VIRTIO_MEM)


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        ({MAX_VCPUS: "1"}, "is not a whole number from 2 to 255"),
        ({MAX_VCPUS: "two"}, "is not a whole number"),
        ({MAX_MEMORY: "1x"}, "quantities must match"),
        ({MAX_MEMORY: "500Mi"}, "is less than the memory limit of 1000 MiB"),
        ({MAX_MEMORY: "1Ti"}, "can carry at most"),
        ({CELLS: "2", NODE: "2"}, "has no cell 2, because podfit.dev/vm-numa-cells is 2"),
        ({NODE: "one"}, "is not a whole number"),
        ({DEVICE: "floppy"}, "must be one of dimm, virtio-mem"),
    ],
)
def test_annotations_that_cannot_be_honoured_are_refused(annotations: dict[str, str], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        layout_of(SIZE, annotations)


def test_numa_cells_are_bounded_by_the_memory_that_the_guest_boots_with() -> None:
    assert layout_of(Size(1, 64), {CELLS: "8"}).cells == 8
    with pytest.raises(Invalid, match="9 cells need at least 72 MiB of memory, 8 MiB each; the memory limit is 64 MiB"):
        layout_of(Size(1, 64), {CELLS: "9"})


@pytest.mark.parametrize(("cells", "slots"), [("1", 30), ("4", 27)])
def test_a_vm_whose_memory_is_shared_has_no_more_slots_than_virtiofsd_maps(cells: str, slots: int) -> None:
    large = Size(1, 8192)
    for chosen in ({CELLS: cells}, {CELLS: cells, SLOTS: "60"}):
        assert layout_of(large, chosen, shares_memory=True).slots == slots
    assert layout_of(large, {CELLS: cells, SLOTS: "8"}, shares_memory=True).slots == 8
    assert layout_of(large, {CELLS: cells}).slots == 192


def test_the_vcpus_that_a_guest_may_get_are_bounded_by_the_memory_it_boots_with() -> None:
    small = Size(20, 128)
    assert layout_of(small, {}).max_vcpus == 64
    assert layout_of(small, {MAX_VCPUS: "64"}).max_vcpus == 64
    with pytest.raises(Invalid, match="starts with 128 MiB can carry at most 64 vCPUs, not 65"):
        layout_of(small, {MAX_VCPUS: "65"})
    with pytest.raises(Invalid, match="65 vCPUs need at least 130 MiB"):
        layout_of(Size(65, 128), {})


def test_a_size_beyond_the_maxima_is_refused_and_the_maxima_are_not() -> None:
    layout = layout_of(SIZE, {})
    layout.check(Size(8, 4096))
    with pytest.raises(BeyondMaximum, match="9 vCPUs are more than the 8"):
        layout.check(Size(9, 4096))
    with pytest.raises(BeyondMaximum, match="4097 MiB are more than the 4096 MiB"):
        layout.check(Size(8, 4097))


def test_cells_share_memory_and_vcpus_without_a_rest() -> None:
    layout = Layout(Size(2, 1000), 7, 4096, cells=3)
    assert [layout.cell_memory(cell) for cell in range(3)] == [334, 333, 333]
    assert [layout.cell_vcpus(cell) for cell in range(3)] == [(0, 2), (3, 4), (5, 6)]


def test_a_layout_survives_its_json() -> None:
    layout = layout_of(SIZE, {CELLS: "2", NODE: "1"})
    assert Layout.from_json(layout.to_json()) == layout
