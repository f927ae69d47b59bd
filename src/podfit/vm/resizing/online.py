"""Whether the guest uses the memory that was plugged: its agent says it exactly, the balloon's statistics nearly.

Blocks that the guest's kernel leaves offline are brought online by the agent. What the guest does not use is not
reported as its own, and the reason names what it lacks.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from podfit.vm.decide.devices import Device
from podfit.vm.machines.guest import AgentFailed, GuestAgent
from podfit.vm.machines.machine import Machine

SEEN_S, REPORTED_S = 10.0, 4.0
"""How long the guest may take to show plugged memory, to its agent and in its statistics, which come every second."""
SILENT_S = 10.0
_PAUSE_S, _LOOK_S = 0.02, 0.25
_COUNTED = 0.9
"""The guest's kernel keeps a part of plugged memory for itself."""


@dataclass(frozen=True)
class Found:
    unused_mib: int = 0
    why: str = ""


class Online:
    def __init__(self, machine: Machine, agent: GuestAgent) -> None:
        self._machine, self._agent = machine, agent

    async def total_mib(self) -> int:
        """What the balloon driver counts; 0 without one."""
        return (await self._machine.statistics()).get("available", 0) >> 10

    async def look(self, unused_mib: int, expected_mib: int) -> Found:
        """`unused_mib`: what is in doubt; `expected_mib`: what the balloon driver counts once it is used."""
        try:
            return await self.by_agent()
        except AgentFailed as error:
            return await self._ask_balloon(unused_mib, expected_mib, str(error))

    async def by_agent(self) -> Found:
        """Raises AgentFailed."""
        deadline, tried = time.monotonic() + SEEN_S, False
        while True:
            size, blocks = await self._agent.block_size(), await self._agent.blocks()
            live = await self._machine.live()
            wanted = [
                number
                for device in live.memory.devices
                for number in _blocks(device, live.dimms[device.slot][1], size)
                if not blocks.get(number)
            ]
            if not wanted:
                return Found()
            shown = [number for number in wanted if number in blocks]
            if shown == wanted and not tried:
                tried = True
                await self._agent.set_blocks(shown, True)
            elif time.monotonic() > deadline:
                return Found(len(wanted) * size >> 20, _why_not(len(wanted), len(shown), size))
            await asyncio.sleep(_PAUSE_S)

    async def _ask_balloon(self, unused_mib: int, expected_mib: int, silent: str) -> Found:
        deadline = time.monotonic() + REPORTED_S
        while True:
            found = await self._machine.statistics()
            counted = found.get("available", 0) >> 10
            if expected_mib and counted >= expected_mib:
                return Found()
            if not counted or not expected_mib or time.monotonic() > deadline:
                break
            await asyncio.sleep(_LOOK_S)
        if not counted or not expected_mib:
            why = f"it has no statistics of a balloon driver either, and {silent}"
            return Found(unused_mib, f"nobody knows whether the guest uses {unused_mib} MiB that were plugged: {why}")
        age = time.time() - found.get("last_update", 0)
        if age > SILENT_S:
            return Found(
                unused_mib, f"the guest does not respond: its balloon driver is silent for {age:.0f} s, and {silent}"
            )
        return Found(
            unused_mib,
            f"the guest does not use {unused_mib} MiB that were plugged: its kernel leaves them offline "
            f"(kernel parameter memhp_default_state=online_movable), and {silent}",
        )


def expected(total_mib: int, added_mib: int) -> int:
    """What the balloon driver counts when the added memory is in use; 0: nobody counts."""
    return total_mib + int(added_mib * _COUNTED) if total_mib else 0


def _blocks(device: Device, base: int, size: int) -> range:
    return range(base // size, (base + (device.size << 20)) // size)


def _why_not(wanted: int, shown: int, size: int) -> str:
    if shown:
        return f"the guest's kernel refuses to put {shown * size >> 20} MiB that were plugged online"
    return (
        f"the guest does not see {wanted * size >> 20} MiB that were plugged: "
        "its kernel has no memory hotplug, or it is turned off"
    )
