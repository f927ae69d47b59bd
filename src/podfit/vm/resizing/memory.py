"""Resizes the memory of a running VM by devices and balloon. Growing is quick; shrinking goes only as far as the guest
can follow.

A guest from which memory in use is detached kills its own processes. So the available memory is read from the guest
first; a device is vacated block by block before it is detached; and the balloon grows in steps, which end at the first
pressure.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from podfit.vm.decide.blocks import blocks_of, in_zones
from podfit.vm.decide.devices import Device, Memory, plan
from podfit.vm.decide.layout import VIRTIO_MEM
from podfit.vm.decide.refusals import GuestBusy, GuestUnsupported
from podfit.vm.decide.shrinking import Guest, can_give, may_detach, missing, next_step
from podfit.vm.machines.events import BALLOON, REMOVAL_FAILED, REMOVED, RESIZED
from podfit.vm.machines.guest import AgentFailed, GuestAgent
from podfit.vm.machines.hypervisor import LibvirtFailed
from podfit.vm.machines.machine import Machine
from podfit.vm.records import Container
from podfit.vm.resizing.online import SILENT_S, Count, Online, count_of, expected
from podfit.vm.resizing.waits import Waits

log = logging.getLogger(__name__)
SILENCE_S = 10.0
"""The time that a guest may take to release a device without an event."""
BLOCK = 128 << 20
"""The size of a memory block of Linux guests on x86, if the agent does not report it."""
ONLINE_S = 0.06
"""The time in which most kernels bring a device online. Earlier queries are useless, and answering them delays an
emulated guest."""
BALLOON_S = 3.0
"""The time for which the balloon may make no progress."""


@dataclass(frozen=True)
class Present:
    """A VM's memory, vCPUs and guest statistics, measured together."""

    vcpus: int
    """The number of plugged vCPUs."""
    memory: Memory
    count: Count
    """The guest's own count, by its balloon driver."""


class VmMemory:
    """The memory of one VM."""

    def __init__(
        self, machine: Machine, agent: GuestAgent, container: Container, waits: Waits, save: Callable[[], None]
    ) -> None:
        """`save` writes the container's record."""
        self._machine, self._agent, self._waits = machine, agent, waits
        self._container, self._save, self._layout = container, save, container.layout

    async def actual(self) -> Memory:
        """The memory in QEMU now, with the balloon's actual size."""
        return (await self.present()).memory

    async def present(self) -> Present:
        live, found = await self._machine.measured()
        memory, held = live.memory, found.get("actual")
        if held is not None:
            # QEMU's balloon does not count the memory of a virtio-mem device.
            memory = replace(memory, balloon=max(0, memory.total - memory.virtio - (held >> 10)))
        return Present(live.vcpus, memory, count_of(live, found))

    async def set(self, now: Present, target: int, booted: bool = False) -> None:
        """Brings the guest to `target` MiB. `now`: the current state. `booted`: the guest's use of its devices is
        unknown. Raises GuestBusy if the guest ends with more than the target, GuestUnsupported if it does not use its
        memory or that is unknown."""
        if booted and now.memory.plugged:
            await self._measure_again(now.memory)
        if target >= now.memory.guest:
            await self._grow(now, target)
        else:
            await self._shrink(now.memory, target)

    # --- growing
    async def _grow(self, now: Present, target: int) -> None:
        memory = now.memory
        found = plan(self._layout, memory, target)
        added = sum(size for size, _ in found.attach) + max(0, (found.virtio or 0) - memory.virtio)
        total = await Online(self._machine, self._agent).total_mib(now.count) if added else 0
        if added:
            # Recorded before the memory is plugged: if the process dies in between, no memory whose use is unknown
            # counts as used.
            self._record_unused(self._container.unused_mib + added, expected(total, added))
        if found.virtio is not None and found.virtio != memory.virtio:
            accepted = max(0, await self._request_virtio(memory.virtio, found.virtio) - memory.virtio)
            if accepted < added:
                self._record_unused(self._container.unused_mib - added + accepted, expected(total, accepted))
        for size, node in found.attach:
            try:
                await self._machine.attach(size, node)
            except LibvirtFailed:
                self._record_unused(self._container.unused_mib - added, 0)
                raise
            added -= size
        if found.attach:
            await asyncio.sleep(ONLINE_S)
        await self._confirm()
        if (memory.balloon if memory.total >= target else 0) != found.balloon or memory.balloon:
            await self._set_balloon(target)

    def _record_unused(self, unused: int, wanted: int) -> None:
        self._container.unused_mib, self._container.expected_mib = unused, wanted
        self._save()

    async def _confirm(self) -> None:
        """Checks whether the guest uses the added memory. Memory that it does not use does not count, and the balloon
        does not inflate in exchange for it. Raises GuestUnsupported."""
        container = self._container
        if not container.unused_mib:
            return
        found = await Online(self._machine, self._agent).check(container.unused_mib, container.expected_mib)
        if found.unused_mib != container.unused_mib:
            self._record_unused(found.unused_mib, container.expected_mib if found.unused_mib else 0)
        if found.unused_mib:
            raise GuestUnsupported(found.why)

    async def _measure_again(self, memory: Memory) -> None:
        """Measures which memory the guest uses, through the agent only: the balloon's statistics cannot identify unused
        memory."""
        try:
            found = await Online(self._machine, self._agent).by_agent()
        except AgentFailed as error:
            if not (await self._machine.live()).agent:
                return
            self._record_unused(memory.plugged, 0)
            raise GuestUnsupported(
                f"it is unknown whether the guest uses the {memory.plugged} MiB plugged since it booted: {error}"
            ) from error
        self._record_unused(found.unused_mib, 0)

    async def _usable(self) -> int:
        """The memory that the guest has and uses."""
        return (await self.actual()).usable(self._container.unused_mib)

    async def _set_balloon(self, target: int) -> int:
        """Sets the balloon, and waits until it has its size or makes no progress. Returns the memory that the guest has
        and uses."""
        with self._waits.following(self._machine.uuid, BALLOON) as on_event:
            await self._leave(target)
            while (usable := await self._usable()) != target:
                if not await on_event.wait(BALLOON_S):
                    break
        return usable

    async def _leave(self, usable: int) -> None:
        """Sets the balloon so that the guest keeps this much of its used memory."""
        memory = (await self._machine.live()).memory
        # A virtio-mem device may have shrunk meanwhile, and the guest cannot keep more than there is.
        await self._machine.set_balloon(min(usable + self._container.unused_mib, memory.total) - memory.virtio)

    # --- shrinking
    async def _shrink(self, memory: Memory, target: int) -> None:
        usable = memory.usable(self._container.unused_mib)
        goal = max(target, usable - can_give(await self._guest(), target))
        if goal < memory.guest:
            found = plan(self._layout, await self._zoned(memory), goal)
            if found.virtio is not None:
                await self._request_virtio(memory.virtio, found.virtio)
            for device in found.detach:
                await self._detach(device, goal)
            await self._forget_unused()
            await self._inflate(goal)
        reached = await self._usable()
        if reached > target:
            raise GuestBusy(missing(reached, target))

    async def _zoned(self, memory: Memory) -> Memory:
        """Marks the devices outside the guest's movable zone, if there is a choice and the agent reports it."""
        if len(memory.devices) < 2:
            return memory
        try:
            fixed, size = await self._agent.fixed_blocks(), await self._agent.block_size()
        except AgentFailed:
            return memory
        bases = {slot: base for slot, (_, base) in (await self._machine.live()).dimms.items()}
        return replace(memory, devices=in_zones(memory.devices, bases, fixed, size))

    async def _forget_unused(self) -> None:
        """Stops counting unused memory that is no longer plugged. Without an agent, the rest stays unconfirmed."""
        left = min((await self.actual()).plugged, self._container.unused_mib)
        if left:
            with suppress(AgentFailed):
                left = (await Online(self._machine, self._agent).by_agent(0)).unused_mib
        if left != self._container.unused_mib:
            self._record_unused(left, 0)

    async def _guest(self) -> Guest:
        try:
            return await self._agent.memory()
        except AgentFailed as error:
            found = await self._machine.statistics()
            if "usable" not in found:
                raise GuestUnsupported(
                    "the guest reports no free memory: it has neither a balloon driver with statistics nor an agent "
                    f"({error}), and memory that may be in use is not unplugged"
                ) from error
            age = time.time() - found.get("last_update", 0)
            if age > SILENT_S:
                raise GuestUnsupported(
                    f"the guest does not respond: its balloon driver is silent for {age:.0f} s, and {error}; "
                    "memory that may be in use is not unplugged"
                ) from error
            return Guest(found.get("available", 0) >> 10, found["usable"] >> 10)

    async def _detach(self, device: Device, goal: int) -> None:
        """Detaches a device, or leaves it in place if the guest cannot vacate it; the balloon then takes the same
        amount."""
        taken = await self._vacate(device, goal)
        if taken is None:
            return
        with self._waits.following(self._machine.uuid, REMOVED, REMOVAL_FAILED) as on_event:
            alias = await self._machine.detach(device.slot)
            while device.slot in (await self._machine.live()).dimms:
                if not await on_event.wait(SILENCE_S):
                    log.warning("%s: no event about the memory device %s", self._machine.name, alias)
                    break
                if any(event.kind == REMOVAL_FAILED and event.detail == alias for event in on_event.events):
                    log.info("%s: the guest refused to release the memory device %s", self._machine.name, alias)
                    break
        if device.slot in (await self._machine.live()).dimms:
            await self._bring_online(taken)
        await self._machine.settle_definition()

    async def _vacate(self, device: Device, goal: int) -> list[int] | None:
        """Takes the device's blocks offline one by one, as long as the guest has room for their content. Returns the
        blocks; None if the device must stay."""
        try:
            size = await self._agent.block_size()
            online = await self._agent.blocks()
        except AgentFailed:
            return [] if may_detach(device.size, await self._guest(), goal) else None
        base = (await self._machine.live()).dimms[device.slot][1]
        used = [number for number in blocks_of(device, base, size) if online.get(number)] if base is not None else []
        if base is None or not may_detach(len(used) * size >> 20, await self._guest(), goal):
            return None
        for position, number in enumerate(used):
            if not may_detach(size >> 20, await self._guest(), goal) or not await self._took(number):
                await self._bring_online(used[: position + 1])
                return None
        return used

    async def _took(self, number: int) -> bool:
        try:
            return not await self._agent.set_blocks([number], False)
        except AgentFailed:
            return False

    async def _bring_online(self, taken: list[int]) -> None:
        """Brings blocks back online. Blocks that stay offline do not count as the guest's memory."""
        try:
            size = await self._agent.block_size()
            online = await self._agent.blocks()
            await self._agent.set_blocks([number for number in taken if not online.get(number)], True)
            online = await self._agent.blocks()
        except AgentFailed as error:
            log.warning("%s: memory blocks stay offline: %s", self._machine.name, error)
            size, online = BLOCK, {}
        offline = sum(not online.get(number) for number in taken) * size >> 20
        if offline:
            self._record_unused(self._container.unused_mib + offline, 0)

    async def _inflate(self, goal: int) -> None:
        """Inflates in steps down to the goal; if the guest did not follow a step, no further one is requested."""
        if await self._usable() < goal and (await self.actual()).balloon:
            # Devices were detached, and the balloon still has its size from before.
            await self._set_balloon(goal)
        while (present := await self._usable()) > goal:
            step = next_step(present, goal, await self._guest())
            if step >= present or await self._set_balloon(step) > step:
                await self._leave(await self._usable())
                return

    # --- virtio-mem
    async def _request_virtio(self, present: int, requested: int) -> int:
        """Requests a size and returns the device's final size. A device that gave up retries only after a different
        request, so a different one is sent first."""
        assert self._layout.device == VIRTIO_MEM
        if requested < present:
            await self._machine.request_virtio(present)
        with self._waits.following(self._machine.uuid, RESIZED) as on_event:
            await self._machine.request_virtio(requested)
            while (reached := (await self._machine.live()).memory.virtio) != requested:
                if not await on_event.wait(BALLOON_S):
                    break
        return reached
