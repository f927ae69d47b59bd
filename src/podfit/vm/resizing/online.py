"""Whether the guest uses the memory that was plugged: its agent says it exactly, the balloon's statistics nearly.

Blocks that the guest's kernel leaves offline are brought online by the agent. What the guest does not use is not
reported as its own, and the reason names what it lacks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from podfit.vm.decide.blocks import Unused, unused
from podfit.vm.decide.refusals import GuestLacks
from podfit.vm.machines.definition import Live
from podfit.vm.machines.guest import AgentFailed, GuestAgent
from podfit.vm.machines.machine import Machine

SEEN_S, REPORTED_S = 10.0, 6.0
"""How long the guest may take to show plugged memory, to its agent and in its statistics, which come every second."""
SILENT_S = 10.0
_PAUSE_S, _LOOK_S = 0.02, 0.25
_COUNTED = 0.9
"""The guest's kernel keeps a part of plugged memory for itself."""


@dataclass(frozen=True)
class Found:
    unused_mib: int = 0
    why: str = ""


@dataclass(frozen=True)
class Count:
    """The guest's memory by its balloon driver."""

    mib: int
    """0: it does not say."""
    held_mib: int
    """What the balloon holds; included."""
    updated: int
    """When the guest said so, in whole seconds."""
    agent: bool
    """The guest has an agent, which knows better."""


class Online:
    def __init__(self, machine: Machine, agent: GuestAgent) -> None:
        self._machine, self._agent = machine, agent

    async def total_mib(self, found: Count) -> int:
        """What the balloon driver counts, with what the balloon holds; 0 if nobody counts. `found`: a moment ago.

        Statistics are up to a second old. Where they must be right, because there is no agent or the balloon may have
        moved just now, the next ones are waited for: compared with an outdated count, unused memory could pass for
        used. Raises GuestLacks if none come."""
        asked = time.time()
        deadline = asked + SILENT_S
        now = found
        while now.mib and (now.held_mib or not now.agent) and now.updated <= asked:
            if time.time() > deadline:
                age = time.time() - now.updated
                raise GuestLacks(f"the guest does not respond: its balloon driver is silent for {age:.0f} s")
            await asyncio.sleep(_LOOK_S)
            now = await self._count()
        return now.mib

    async def _count(self) -> Count:
        return count_of(*await self._machine.measured())

    async def look(self, unused_mib: int, expected_mib: int) -> Found:
        """`unused_mib`: what is in doubt; `expected_mib`: what the balloon driver counts once it is used."""
        try:
            return await self.by_agent()
        except AgentFailed as error:
            return await self._ask_balloon(unused_mib, expected_mib, str(error))

    async def by_agent(self, patience_s: float = SEEN_S) -> Found:
        """Raises AgentFailed."""
        deadline, size, seen = time.monotonic() + patience_s, await self._agent.block_size(), False
        while True:
            live = await self._machine.live()
            # After the devices: a block that the guest shows by now may belong to none of them, but not the reverse.
            region = await self._machine.virtio_region() if live.memory.virtio else None
            left = unused(live.placed(), await self._agent.blocks(), size, region)
            if not left.mib:
                return Found()
            if time.monotonic() > deadline:
                return Found(left.mib, _why_not(left))
            # Most kernels put it online by themselves, a moment after they show it.
            ready = [*left.offline, *left.partial] if seen and not left.hidden else []
            refused = await self._agent.set_blocks(ready, True)
            seen = not left.hidden
            await asyncio.sleep(_LOOK_S if refused else _PAUSE_S)

    async def _ask_balloon(self, unused_mib: int, expected_mib: int, silent: str) -> Found:
        asked, deadline = time.time(), time.monotonic() + REPORTED_S
        while True:
            now = await self._count()
            if expected_mib and now.mib >= expected_mib and now.updated > asked:
                return Found()
            if not now.mib or not expected_mib or time.monotonic() > deadline:
                break
            await asyncio.sleep(_LOOK_S)
        if not now.mib or not expected_mib:
            why = f"it has no balloon statistics either, and {silent}"
            return Found(unused_mib, f"it is unknown whether the guest uses {unused_mib} MiB of plugged memory: {why}")
        age = time.time() - now.updated
        if age > SILENT_S:
            return Found(
                unused_mib, f"the guest does not respond: its balloon driver is silent for {age:.0f} s, and {silent}"
            )
        return Found(
            unused_mib,
            f"the guest does not use {unused_mib} MiB of plugged memory: its kernel leaves them offline "
            f"(kernel parameter memhp_default_state=online_movable), and {silent}",
        )


def count_of(live: Live, statistics: Mapping[str, int]) -> Count:
    held = max(0, live.memory.total - live.memory.virtio - (statistics.get("actual", 0) >> 10))
    # The guest does not count what its balloon holds. Both together change only with what it uses.
    counted = (statistics["available"] >> 10) + held if statistics.get("available") else 0
    return Count(counted, held, statistics.get("last_update", 0), live.agent)


def expected(total_mib: int, added_mib: int) -> int:
    """What the balloon driver counts when the added memory is in use; 0: nobody counts."""
    return total_mib + int(added_mib * _COUNTED) if total_mib else 0


def _why_not(left: Unused) -> str:
    if left.hidden:
        return (
            f"the guest does not see {left.hidden_mib} MiB of plugged memory: "
            "its kernel has no memory hotplug, or it is disabled"
        )
    if left.offline_mib:
        return f"the guest's kernel refuses to put {left.offline_mib} MiB of plugged memory online"
    return f"libvirt does not show the address of {left.unplaced_mib} MiB of plugged memory; retrying"
