"""Memory devices for a VM that grows or shrinks; the balloon makes up the difference."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podfit.vm.decide.devices import Device, DeviceChanges, Memory, grow, plan, shrink
from podfit.vm.decide.layout import VIRTIO_MEM, Layout
from podfit.vm.decide.refusals import OutOfSlots
from podfit.vm.decide.sizes import Size

LAYOUT = Layout(Size(1, 512), 4, 8192)


def test_growth_of_a_whole_device_needs_no_balloon() -> None:
    assert plan(LAYOUT, Memory(512), 640) == DeviceChanges(attach=((128, 0),))


def test_the_balloon_takes_back_what_the_devices_have_too_much() -> None:
    assert plan(LAYOUT, Memory(512), 700) == DeviceChanges(attach=((128, 0), (128, 0)), balloon=68)


def test_small_devices_are_chosen_while_they_leave_half_of_the_slots() -> None:
    assert grow(512, 16, 8192) == (128, 128, 128, 128)
    assert grow(2048, 16, 8192) == (512, 512, 512, 512)


def test_devices_are_larger_when_small_ones_would_put_the_maximum_out_of_reach() -> None:
    layout = Layout(Size(1, 256), 4, 4352, slots=2)
    assert plan(layout, Memory(256), 2304) == DeviceChanges(attach=((2048, 0),))
    assert plan(replace(layout, slots=4), Memory(256), 2304).attach == ((1024, 0), (1024, 0))


def test_growth_without_a_free_slot_names_the_annotation() -> None:
    with pytest.raises(OutOfSlots, match="podfit.dev/vm-slots"):
        grow(128, 0, 8192)


def test_new_memory_goes_to_the_cell_that_has_least() -> None:
    layout = Layout(Size(2, 512), 4, 8192, cells=2)
    memory = Memory(512, (Device(0, 128, node=0),))
    assert plan(layout, memory, 768) == DeviceChanges(attach=((128, 1),))


def test_shrinking_detaches_movable_devices_first_and_newer_before_older() -> None:
    old, new, fixed = Device(0, 128), Device(1, 128), Device(2, 128, movable=False)
    assert shrink(128, (old, new, fixed)) == (new,)
    assert shrink(256, (old, new, fixed)) == (new, old)
    assert shrink(127, (old, new, fixed)) == ()


def test_memory_that_no_device_size_fits_stays_in_the_balloon() -> None:
    memory = Memory(512, (Device(0, 512),))
    assert plan(LAYOUT, memory, 700) == DeviceChanges(balloon=324)
    assert plan(LAYOUT, memory, 500) == DeviceChanges(detach=(Device(0, 512),), balloon=12)


def test_virtio_mem_is_resized_in_its_own_blocks() -> None:
    layout = Layout(Size(1, 512), 4, 8192, device=VIRTIO_MEM)
    assert plan(layout, Memory(512), 1025) == DeviceChanges(virtio=514, balloon=1)
    assert plan(layout, Memory(512, virtio=514), 512) == DeviceChanges(virtio=0)


@pytest.mark.parametrize(("unused", "usable"), [(0, 340), (128, 212), (500, 84)])
def test_unconfirmed_memory_is_not_usable_and_never_more_than_is_plugged(unused: int, usable: int) -> None:
    memory = Memory(128, (Device(0, 128),), balloon=44, virtio=128)
    assert (memory.plugged, memory.usable(unused)) == (256, usable)
