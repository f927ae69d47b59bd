"""Properties of the decisions about a VM's size."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.machines import settings_in

from podfit.api.pods.machines import CELL_MIB, CELLS, DEVICE, MAX_MEMORY, MAX_VCPUS, NODE, VCPU_MIB
from podfit.vm.decide import conversions, progress
from podfit.vm.decide.devices import SIZES, Device, Memory, grow, plan, shrink
from podfit.vm.decide.layout import DIMM, VIRTIO_MEM, layout_of
from podfit.vm.decide.refusals import BeyondMaximum, Invalid, OutOfSlots
from podfit.vm.decide.shrinking import Guest, may_detach, next_step, reserve
from podfit.vm.decide.sizes import MIB, Limits, Size, actual_limits, memory_of, size_of, vcpus_of

INT64 = st.integers(0, (1 << 63) - 1)
sizes = st.builds(Size, st.integers(1, 16), st.integers(64, 65536))
devices = st.lists(st.tuples(st.sampled_from(SIZES), st.booleans()), max_size=16).map(
    lambda found: tuple(Device(slot, size, 0, movable) for slot, (size, movable) in enumerate(found))
)


@given(missing=st.integers(1, 200_000), free=st.integers(0, 64))
def test_new_devices_reach_what_is_missing_within_the_free_slots(missing: int, free: int) -> None:
    try:
        chosen = grow(missing, free, 1 << 30)
    except OutOfSlots:
        assert missing > free * SIZES[-1]
        return
    assert sum(chosen) >= missing and len(chosen) <= free and set(chosen) <= set(SIZES)


@given(missing=st.integers(1, 200_000), free=st.integers(12, 255))
def test_with_enough_slots_no_more_than_one_small_device_is_left_to_the_balloon(missing: int, free: int) -> None:
    if -(-missing // 128) <= free // 2:
        assert grow(missing, free, 1 << 30) == (128,) * -(-missing // 128)


@given(memory_mib=st.integers(64, 10_000), runs=st.lists(st.tuples(st.integers(-500, 300), st.integers(1, 60))))
def test_no_history_of_sizes_uses_up_the_slots_that_a_vm_has_by_default(
    memory_mib: int, runs: list[tuple[int, int]]
) -> None:
    """`runs`: steps in MiB, each with how often it is repeated."""
    layout, memory = layout_of(Size(1, memory_mib), {}), Memory(memory_mib)
    for step in (step for step, times in runs for _ in range(times)):
        target = min(max(memory.guest + step, memory_mib), layout.max_memory_mib)
        found = plan(layout, memory, target)
        kept = [device for device in memory.devices if device not in found.detach]
        slot = max((device.slot for device in memory.devices), default=0)
        new = [Device(slot + number, size, node) for number, (size, node) in enumerate(found.attach, 1)]
        memory = replace(memory, devices=(*kept, *new), balloon=found.balloon)
        assert memory.guest == target and len(memory.devices) <= layout.slots


@given(present=devices, excess=st.integers(0, 40_000))
def test_detached_devices_never_take_the_guest_below_its_size(present: tuple[Device, ...], excess: int) -> None:
    gone = shrink(excess, present)
    assert sum(device.size for device in gone) <= excess
    assert len({device.slot for device in gone}) == len(gone) and set(gone) <= set(present)


@given(present=devices, excess=st.integers(0, 40_000))
def test_no_device_stays_that_is_preferred_and_would_have_fitted(present: tuple[Device, ...], excess: int) -> None:
    gone = shrink(excess, present)
    rest = excess - sum(device.size for device in gone)
    assert all(device.size > rest for device in present if device not in gone)
    kept_movable = [device for device in present if device.movable and device not in gone]
    for device in gone:
        if not device.movable:
            assert all(other.size > rest for other in kept_movable)


@given(boot=sizes, present=devices, balloon=st.integers(0, 64), data=st.data())
def test_every_whole_mib_up_to_the_maximum_is_met_exactly(
    boot: Size, present: tuple[Device, ...], balloon: int, data: st.DataObject
) -> None:
    layout = layout_of(boot, {MAX_MEMORY: f"{boot.memory_mib * 4}Mi"})
    memory = Memory(boot.memory_mib, present, balloon)
    target = data.draw(st.integers(64, layout.max_memory_mib))
    try:
        found = plan(layout, memory, target)
    except OutOfSlots:
        return
    plugged = memory.total + sum(size for size, _ in found.attach) - sum(device.size for device in found.detach)
    assert plugged - found.balloon == target and found.balloon >= 0
    assert plugged <= max(layout.domain_max_mib, memory.total)


@given(boot=sizes, target=st.integers(64, 200_000), now=st.integers(0, 100_000))
def test_virtio_mem_meets_every_whole_mib(boot: Size, target: int, now: int) -> None:
    layout = layout_of(boot, {DEVICE: VIRTIO_MEM})
    found = plan(layout, Memory(boot.memory_mib, virtio=now), target)
    assert found.virtio is not None and found.virtio % 2 == 0 and not found.attach and not found.detach
    assert boot.memory_mib + found.virtio - found.balloon == target and found.balloon >= 0


@given(boot=sizes, cells=st.integers(1, 8), grown=st.integers(1, 20_000))
def test_numa_cells_share_boot_memory_and_vcpus_and_new_memory_evens_them_out(
    boot: Size, cells: int, grown: int
) -> None:
    boot = replace(boot, memory_mib=max(boot.memory_mib, cells * CELL_MIB))
    layout = layout_of(boot, {CELLS: str(cells)})
    assert sum(layout.cell_memory(cell) for cell in range(cells)) == boot.memory_mib
    numbers = [
        vcpu for cell in range(cells) for vcpu in range(layout.cell_vcpus(cell)[0], layout.cell_vcpus(cell)[1] + 1)
    ]
    assert numbers == list(range(layout.max_vcpus))
    asked = layout_of(boot, {CELLS: str(cells), NODE: str(cells - 1)})
    try:
        found = plan(asked, Memory(boot.memory_mib), boot.memory_mib + grown)
    except OutOfSlots:
        return
    assert {node for _, node in found.attach} == {cells - 1}


@given(boot=sizes)
def test_without_annotations_a_vm_can_grow_to_four_times_its_size_and_no_further(boot: Size) -> None:
    layout = layout_of(boot, {})
    assert layout.device == DIMM
    vcpus = min(boot.vcpus * 4, boot.memory_mib // VCPU_MIB)
    layout.check(Size(vcpus, boot.memory_mib * 4))
    with pytest.raises(BeyondMaximum, match=MAX_VCPUS):
        layout.check(Size(vcpus + 1, boot.memory_mib))
    with pytest.raises(BeyondMaximum, match=MAX_MEMORY):
        layout.check(Size(boot.vcpus, layout.max_memory_mib + 1))


@given(boot=sizes, times=st.integers(17, 1000))
def test_a_maximum_that_the_boot_memory_cannot_carry_is_refused(boot: Size, times: int) -> None:
    with pytest.raises(Invalid, match="can carry at most"):
        layout_of(boot, {MAX_MEMORY: f"{boot.memory_mib * times}Mi"})


@given(milli=st.integers(1, 255_000))
def test_a_fraction_of_a_vcpu_is_refused_and_whole_ones_are_counted(milli: int) -> None:
    limits = Limits(cpu_period=100_000, cpu_quota=milli * 100)
    if milli % 1000:
        with pytest.raises(Invalid, match="only have whole vCPUs"):
            vcpus_of(limits)
    else:
        assert vcpus_of(limits) == milli // 1000


@given(
    limits=st.builds(Limits, INT64, INT64, INT64, INT64, st.sampled_from(["", "0-3", "1"]), st.just("")),
    vcpus=st.integers(0, 255),
)
def test_conversions_between_cri_and_the_domain_lose_nothing(limits: Limits, vcpus: int) -> None:
    settings = conversions.settings_of(limits, vcpus)
    read = settings_in(conversions.to_xml(settings))
    assert read == settings and conversions.limits_of(read) == limits


@pytest.mark.parametrize("field", ["cpu_shares", "cpu_quota", "cpu_period", "memory_bytes"])
def test_a_number_that_a_domain_cannot_carry_is_an_error_and_never_truncated(field: str) -> None:
    with pytest.raises(OverflowError):
        conversions.settings_of(Limits(**{field: 1 << 64}), 1)


@given(vcpus=st.integers(1, 255), memory=st.integers(64 * MIB, 1 << 50))
def test_a_guest_that_has_its_limits_reports_exactly_them(vcpus: int, memory: int) -> None:
    limits = Limits(100_000, vcpus * 100_000, 1024, memory)
    assert actual_limits(limits, size_of(limits)) == limits
    less = Size(vcpus + 1, memory_of(limits) + 5)
    assert size_of(actual_limits(limits, less)) == less


@given(present=st.integers(64, 65536), target=st.integers(64, 65536), available=st.integers(0, 65536))
def test_a_shrinking_guest_keeps_its_reserve_and_never_passes_the_target(
    present: int, target: int, available: int
) -> None:
    step = next_step(present, target, Guest(present, available))
    if present <= target:
        assert step == target
        return
    assert target <= step <= present
    assert available - (present - step) >= min(available, reserve(target))


@given(size=st.sampled_from(SIZES), available=st.integers(0, 65536), target=st.integers(64, 65536))
def test_a_device_is_detached_only_if_its_content_finds_room(size: int, available: int, target: int) -> None:
    assert may_detach(size, Guest(target + size, available), target) == (available - size >= reserve(target))


@given(requests=st.lists(st.one_of(sizes, st.sampled_from(["begin", "end", "crash"])), max_size=30))
def test_the_newest_target_is_never_dropped_and_every_update_ends(requests: list[object]) -> None:
    update: progress.Update | None = None
    newest: Size | None = None
    for event in requests:
        if isinstance(event, Size):
            update, newest = progress.requested(update, event), event
        elif update is None:
            continue
        elif event == "begin" and not update.running:
            update = progress.begun(update)
        elif event == "end" and update.running:
            assert update.working_on is not None
            update = progress.ended(update, update.working_on)
        elif event == "crash":
            update = progress.interrupted(update)
        if update is not None:
            assert update.target == newest
            assert progress.Update.from_json(update.to_json()) == update
    while update is not None:
        update = progress.begun(update)
        assert update.working_on is not None
        update = progress.ended(update, update.working_on)


@given(target=sizes)
def test_a_repeated_request_for_the_same_target_changes_nothing(target: Size) -> None:
    running = progress.begun(progress.Update(target, problem="busy", attempts=3))
    assert progress.requested(running, target) is running
