"""Resizes the vCPUs of a running VM: QEMU plugs them, the guest agent brings them online and takes them offline.

Under KVM vCPUs are unplugged. An emulated machine does not survive that: there the guest takes them offline, and they
stay plugged.
"""

from __future__ import annotations

import asyncio

from podfit.vm.decide.refusals import GuestBusy, GuestUnsupported
from podfit.vm.decide.translation import has_room
from podfit.vm.machines.guest import AgentFailed, GuestAgent
from podfit.vm.machines.machine import Machine

_TRIES, _PAUSE_S = 40, 0.025


def wanted_states(present: dict[int, bool], count: int) -> dict[int, bool]:
    """The changes after which `count` vCPUs are online: those with low numbers stay, and the first always does."""
    chosen = set(sorted(present)[:count])
    return {number: number in chosen for number, online in present.items() if online != (number in chosen)}


async def plug(machine: Machine, present: int, count: int, most: int) -> None:
    """Plugs vCPUs. Raises GuestBusy if QEMU would crash now."""
    if not has_room(await machine.translated(), present, count - present, most):
        raise GuestBusy(f"QEMU's translation cache has no room for {count - present} more vCPUs yet; retrying")
    await machine.add_vcpus(count)


async def set_vcpus(
    machine: Machine, agent: GuestAgent, count: int, offline: int, most: int, accelerated: bool
) -> tuple[int, str]:
    """Sets the number of online vCPUs. `offline`: the number of plugged vCPUs that the guest does not use, or may not
    use; `most`: the number it can ever have.

    Returns how many are not used afterwards, and what the guest lacks if those are too many. Raises GuestUnsupported,
    GuestBusy, LibvirtFailed.
    """
    before = plugged = (await machine.live()).vcpus
    if count > plugged:
        await plug(machine, plugged, count, most)
        plugged = count
    elif count < plugged and accelerated:
        await machine.remove_vcpus(count)
        plugged = count
    try:
        present = await _seen(agent, plugged)
        changes = wanted_states(present, count)
        await agent.set_vcpus(changes)
        online = sum({**present, **changes}.values())
        return plugged - online, _lacks(len(present), plugged, count - online)
    except AgentFailed as error:
        if count < plugged:
            raise GuestUnsupported(
                f"the guest cannot take {plugged - count} of its {plugged} vCPUs offline: {error}"
            ) from error
        doubted = offline + plugged - before
        if not doubted:
            return 0, ""
        return doubted, f"it is unknown whether the guest uses all of its {plugged} vCPUs: {error}"


def _lacks(shown: int, plugged: int, missing: int) -> str:
    if missing <= 0:
        return ""
    return f"the guest shows {shown} of its {plugged} vCPUs: its kernel has no CPU hotplug, or it is limited to {shown}"


async def _seen(agent: GuestAgent, plugged: int) -> dict[int, bool]:
    """The guest's vCPUs, with new ones: those appear within a moment."""
    present: dict[int, bool] = {}
    for _ in range(_TRIES):
        present = await agent.vcpus()
        if len(present) >= plugged:
            break
        await asyncio.sleep(_PAUSE_S)
    return present
