"""Determines whether the guest uses plugged memory: exactly by its agent, approximately by the balloon's statistics.

The agent brings blocks online that the guest's kernel leaves offline. Memory that the guest does not use is not
reported as its own, and the message names what the guest lacks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

from podfit.vm.decide.blocks import Unused, unused
from podfit.vm.decide.refusals import GuestUnsupported
from podfit.vm.machines.definition import Live
from podfit.vm.machines.guest import AgentFailed, GuestAgent
from podfit.vm.machines.machine import Machine

SEEN_S, REPORTED_S = 10.0, 6.0
"""The time that the guest may take to report plugged memory: through its agent, and in its statistics, which arrive
every second."""
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
    """The guest's memory as counted by its balloon driver."""

    mib: int
    """The guest's memory with the balloon's size; 0 if it is not reported."""
    held_mib: int
    """The size of the balloon, which is included in `mib`."""
    updated: int
    """The time of the guest's report, in whole seconds."""
    agent: bool
    """Whether the guest has an agent, which is more precise."""


class Online:
    def __init__(self, machine: Machine, agent: GuestAgent) -> None:
        self._machine, self._agent = machine, agent

    async def total_mib(self, found: Count) -> int:
        """The balloon driver's count plus the balloon's size; 0 without a driver. `found`: the count of a moment ago.

        Statistics are up to a second old. If they have to be current, because there is no agent or the balloon may have
        moved just now, this waits for the next ones: compared with an outdated count, unused memory could seem used.
        Raises GuestUnsupported if none arrive.
        """
        requested = time.time()
        deadline = requested + SILENT_S
        now = found
        while now.mib and (now.held_mib or not now.agent) and now.updated <= requested:
            if time.time() > deadline:
                age = time.time() - now.updated
                raise GuestUnsupported(f"the guest does not respond: its balloon driver is silent for {age:.0f} s")
            await asyncio.sleep(_LOOK_S)
            now = await self._count()
        return now.mib

    async def _count(self) -> Count:
        return count_of(*await self._machine.measured())

    async def check(self, unused_mib: int, expected_mib: int) -> Found:
        """Determines how much memory the guest does not use. `unused_mib`: the unconfirmed amount; `expected_mib`: the
        balloon driver's count once that memory is used."""
        try:
            return await self.by_agent()
        except AgentFailed as error:
            return await self._ask_balloon(unused_mib, expected_mib, str(error))

    async def by_agent(self, timeout_s: float | None = None) -> Found:
        """Determines, by the agent, how much memory the guest does not use. `timeout_s`: how long the guest may take
        to use it; None for the default. Raises AgentFailed."""
        timeout_s = SEEN_S if timeout_s is None else timeout_s
        deadline, size, seen = time.monotonic() + timeout_s, await self._agent.block_size(), False
        while True:
            live = await self._machine.live()
            # Read after the devices: a block that the guest already shows may belong to none of them, but not vice
            # versa.
            region = await self._machine.virtio_region() if live.memory.virtio else None
            left = unused(live.placed(), await self._agent.blocks(), size, region)
            if not left.mib:
                return Found()
            if time.monotonic() > deadline:
                return Found(left.mib, _why_not(left))
            # Most kernels bring a block online by themselves, a moment after they show it.
            ready = [*left.offline, *left.partial] if seen and not left.hidden else []
            refused = await self._agent.set_blocks(ready, True)
            seen = not left.hidden
            await asyncio.sleep(_LOOK_S if refused else _PAUSE_S)

    async def _ask_balloon(self, unused_mib: int, expected_mib: int, silent: str) -> Found:
        requested, deadline = time.time(), time.monotonic() + REPORTED_S
        while True:
            now = await self._count()
            if expected_mib and now.mib >= expected_mib and now.updated > requested:
                return Found()
            if not now.mib or not expected_mib or time.monotonic() > deadline:
                break
            await asyncio.sleep(_LOOK_S)
        if not now.mib or not expected_mib:
            why = f"the guest reports no balloon statistics, and {silent}"
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
    # The guest does not count the balloon's memory, but the sum of both changes only with the guest's use.
    counted = (statistics["available"] >> 10) + held if statistics.get("available") else 0
    return Count(counted, held, statistics.get("last_update", 0), live.agent)


def expected(total_mib: int, added_mib: int) -> int:
    """The balloon driver's count once the added memory is in use; 0 if unknown."""
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
