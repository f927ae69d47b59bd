"""The part of its plugged memory that a guest uses: determined by blocks, and never by an unknown address."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.vm.decide.blocks import Region, blocks_of, in_zones, unused
from podfit.vm.decide.devices import Device, shrink
from podfit.vm.machines.definition import read_live

BLOCK, GIB = 128 << 20, 1 << 30
DIMM = "<memory model='dimm'><target><size unit='KiB'>131072</size><node>0</node></target>{address}</memory>"
DOMAIN = """<domain><memory unit='KiB'>{total}</memory><currentMemory unit='KiB'>{total}</currentMemory>
<vcpu current='1'>4</vcpu><devices>{devices}<channel><target type='virtio' name='org.qemu.guest_agent.0' {state}/>
</channel></devices></domain>"""


def domain(*addresses: str, state: str = "") -> str:
    devices = "".join(DIMM.format(address=address) for address in addresses)
    return DOMAIN.format(total=(256 + 128 * len(addresses)) << 10, devices=devices, state=state)


@pytest.mark.parametrize(
    "address", ["<address type='dimm' slot='0'/>", "<address type='dimm' slot='0' base='0x0'/>", ""]
)
def test_a_device_without_an_address_is_nowhere_and_not_at_the_beginning(address: str) -> None:
    live = read_live(domain(address, "<address type='dimm' slot='1' base='0x108000000'/>"))
    assert [base for _, base in live.placed()] == [None, 0x108000000]
    boot = {0: True, 1: True}
    assert unused(live.placed(), {**boot, 33: True}, BLOCK).mib == 128, "boot memory is not mistaken for the device"
    assert unused(live.placed(), boot, BLOCK).mib == 256


def test_the_channel_says_whether_the_guest_has_an_agent() -> None:
    assert read_live(domain(state="state='connected'")).agent
    assert not read_live(domain(state="state='disconnected'")).agent
    assert not read_live(domain()).agent


def test_hidden_and_offline_memory_blocks_are_distinguished() -> None:
    left = unused([(Device(0, 512), 4 * GIB)], {32: True, 33: False, 35: False}, BLOCK)
    assert (left.offline, left.hidden, left.mib) == ((33, 35), (34,), 384)


@pytest.mark.parametrize(
    ("online", "partial", "mib"),
    [
        ({32: True, 33: True, 34: True}, (), 0),
        ({32: False}, (32,), 128),
        ({32: True, 33: True, 34: False}, (34,), 128),
        ({32: False, 33: False, 34: False}, (32, 33, 34), 300),
        ({2: False, 36: False}, (), 0),
    ],
)
def test_of_virtio_mem_no_more_is_unused_than_its_offline_blocks_can_hold_and_than_is_plugged(
    online: dict[int, bool], partial: tuple[int, ...], mib: int
) -> None:
    left = unused((), online, BLOCK, Region(4 * GIB, 512, 300))
    assert (left.partial, left.mib, left.offline, left.hidden) == (partial, mib, (), ())


@given(
    st.lists(st.tuples(st.sampled_from((128, 512, 1024, 2048)), st.booleans()), max_size=6),
    st.dictionaries(st.integers(0, 120), st.booleans()),
)
def test_unused_memory_is_at_most_the_plugged_memory_and_zero_if_all_is_online(
    sizes: list[tuple[int, bool]], states: dict[int, bool]
) -> None:
    devices: list[tuple[Device, int | None]] = []
    base = 4 * GIB
    for slot, (size, known) in enumerate(sizes):
        devices.append((Device(slot, size), base if known else None))
        base += size << 20
    left = unused(devices, states, BLOCK)
    assert 0 <= left.mib <= sum(size for size, _ in sizes)
    placed = [(device, at) for device, at in devices if at is not None]
    every = {number: True for device, at in placed for number in blocks_of(device, at, BLOCK)}
    assert unused(placed, {**states, **every}, BLOCK).mib == 0
    assert unused(devices, every, BLOCK).mib == left.unplaced_mib


def test_a_device_with_one_block_outside_of_the_movable_zone_is_not_movable() -> None:
    devices = (Device(0, 256), Device(1, 256), Device(2, 128))
    bases = {0: 0, 1: 256 << 20, 2: None}
    zoned = in_zones(devices, bases, {3}, BLOCK)
    assert [(device.slot, device.movable) for device in zoned] == [(0, True), (1, False), (2, True)]
    assert [device.slot for device in shrink(256, zoned)] == [2], "256 MiB are not all movable beside a device of 128"
