"""A resize that is interrupted before or after any write to cgroup, record, domain, definition or guest still
reaches its target.
"""

from __future__ import annotations

import asyncio
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.sabotage import Saboteur
from tests.vms import Vms, guest_archive, needs_vms, serving, until

from podfit.vm.decide.sizes import MIB

pytestmark = needs_vms
LARGE, SMALL = (2, 385), (1, 256)
MOST_WRITES = 30


@pytest.fixture
def saboteur(monkeypatch: pytest.MonkeyPatch) -> Saboteur:
    from podfit.vm.cgroups import Cgroups
    from podfit.vm.machines.guest import GuestAgent
    from podfit.vm.records import Records

    libvirt = pytest.importorskip("libvirt")

    found = Saboteur()
    writes: dict[type, tuple[str, ...]] = {
        Cgroups: ("write",),
        Records: ("save",),
        libvirt.virDomain: (
            "attachDeviceFlags",
            "detachDeviceFlags",
            "updateDeviceFlags",
            "setMemoryFlags",
            "setVcpusFlags",
            "setMetadata",
        ),
        GuestAgent: ("set_vcpus", "set_blocks"),
    }
    for owner, names in writes.items():
        for name in names:
            monkeypatch.setattr(owner, name, found.wrapped(getattr(owner, name)))
    return found


async def in_sync(runtime: Any, id: str, size: tuple[int, int]) -> None:
    """Checks that the record, the cgroup, the domain's definition and the running domain agree."""
    import libvirt
    from tests.support.machines import settings_in

    from podfit.vm.decide.conversions import limits_of
    from podfit.vm.machines.definition import read_live
    from podfit.vm.machines.memoryxml import counted, requested_mib

    container = runtime.container(id)
    machine = runtime.lives.machine(container)
    assert container.update is None
    assert limits_of(settings_in(await machine.size_xml())) == container.limits
    assert runtime.cgroups.memory_limit(container.group) == (size[1] + container.overhead_mib) * MIB
    assert container.limits.memory_bytes == size[1] * MIB
    running, stored = await runtime.hypervisor.on(
        machine.uuid, lambda domain: (domain.XMLDesc(0), domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
    )
    live, kept = read_live(running), read_live(stored)
    assert counted(live.memory.devices) == counted(kept.memory.devices)
    assert (live.vcpus, requested_mib(running)) == (kept.vcpus, requested_mib(stored))


async def attempt(vms: Vms, id: str, target: tuple[int, int], saboteur: Saboteur) -> None:
    """Requests the size; returns when the process has died."""
    call = asyncio.ensure_future(vms.resize(id, *target))

    async def over() -> bool:
        return call.done() or saboteur.dead

    await until(over, 60)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


@pytest.mark.parametrize(
    ("device", "step", "least"),
    [
        ("dimm", 5, 4),
        pytest.param("dimm", 1, 20, marks=pytest.mark.slow),
        pytest.param("virtio-mem", 1, 14, marks=pytest.mark.slow),
    ],
    ids=["some writes", "every write", "every write with virtio-mem"],
)
async def test_a_crash_at_any_write_of_a_resize_leaves_one_of_the_two_sizes_everywhere(
    tmp_path: Path, saboteur: Saboteur, device: str, step: int, least: int
) -> None:
    archive = guest_archive(tmp_path)
    async with serving(tmp_path, archive, keep=True) as (_, vms):
        id = await vms.run("crash", memory_=device)
        await vms.booted(id)
    sizes, points = [LARGE, SMALL], 0
    for at, after in product(range(0, MOST_WRITES, step), (False, True)):
        target = sizes[points % 2]
        async with serving(tmp_path, keep=True) as (_, vms):
            saboteur.arm(at, after)
            await attempt(vms, id, target, saboteur)
        if not saboteur.dead:
            break
        points += 1
        saboteur.disarm()
        async with serving(tmp_path, keep=True) as (runtime, vms):
            await settled(vms, runtime, id)
            assert await vms.size(id) in sizes
            await vms.resize(id, *target)
            assert await vms.size(id) == target
            await in_sync(runtime, id, target)
    saboteur.disarm()
    assert points > least
    async with serving(tmp_path):
        pass


async def settled(vms: Vms, runtime: Any, id: str) -> None:
    async def idle() -> bool:
        return runtime.container(id).update is None

    await until(idle, 60)
    await vms.booted(id)
