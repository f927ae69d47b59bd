"""Applies the power state of VMs: paused, suspended to disk, shut down and started again, while their container stays.

A VM that is turned off by request is recorded as off before QEMU exits, so that this does not count as the container's
exit; a VM that is started is recorded as on once it runs. libvirt's state of a running or paused VM always takes
precedence.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from podfit.api.pods.machines import OFF, PAUSED, POWERS, RUNNING, SHUTDOWN, SUSPENDED
from podfit.vm.decide.refusals import GuestBusy, Invalid
from podfit.vm.life import Lifecycle, LiveVm
from podfit.vm.machines.machine import Machine
from podfit.vm.records import RUNNING as CONTAINER_RUNS
from podfit.vm.records import Container

_OFF_S = 30.0
"""The time that QEMU may take to exit after it was killed."""
_SAVE_S = 600.0
_RETRIED_S = 1.0
"""The time within which a resumed VM has repeated the access to its disk that failed."""


class Power:
    def __init__(self, lives: Lifecycle) -> None:
        self._lives = lives
        self._turns: dict[str, asyncio.Lock] = {}

    async def actual(self, container: Container) -> str:
        return await self._lives.power(container)

    async def set(self, container: Container, wanted: str, grace_s: float) -> None:
        """Applies a power state. Raises Invalid, GuestBusy or LibvirtFailed."""
        if wanted not in POWERS:
            raise Invalid(f"{wanted!r} must be one of {', '.join(POWERS)}")
        async with self._turns.setdefault(container.id, asyncio.Lock()):
            if container.state != CONTAINER_RUNS:
                raise GuestBusy(f"the container {container.id} does not run")
            now = await self.actual(container)
            if now == wanted:
                return
            if wanted in OFF:
                await self._turn_off(container, now, wanted, grace_s)
            else:
                await self._turn_on(container, now, wanted)
            self._lives.changed(container)

    def forget(self, container: Container) -> None:
        self._turns.pop(container.id, None)

    async def _turn_on(self, container: Container, now: str, wanted: str) -> None:
        machine = self._lives.machine(container)
        if now in OFF:
            await self._lives.boot(container, wanted == PAUSED)
            self._lives.mark(container, RUNNING)
        elif wanted == RUNNING:
            await _resume(machine)
        else:
            await machine.pause()

    async def _turn_off(self, container: Container, now: str, wanted: str, grace_s: float) -> None:
        machine, present = self._lives.machine(container), self._lives.presence(container)
        if now == SHUTDOWN:
            raise GuestBusy("a VM that is shut down has no memory to save: it cannot be suspended")
        if now == SUSPENDED:
            self._lives.mark(container, SHUTDOWN)
            await machine.drop_saved()
            return
        self._lives.mark(container, wanted)
        try:
            if wanted == SUSPENDED:
                await machine.save()
                await _wait(present, _SAVE_S)
                return
            if now == PAUSED:
                await machine.resume()
            await self._shut_down(present, grace_s)
        except BaseException:
            if await self.actual(container) not in OFF:
                self._lives.mark(container, RUNNING)
            raise

    async def _shut_down(self, present: LiveVm, grace_s: float) -> None:
        """Presses the power button, waits for the grace period, then ends QEMU."""
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._lives.shut_down(present)
            return
        await present.machine.destroy()
        await _wait(present, _OFF_S)


async def _resume(machine: Machine) -> None:
    """Raises GuestBusy if QEMU pauses the VM again, because its disk still fails."""
    before = await machine.state()
    await machine.resume()
    if before is None or not before.disk_failed:
        return
    await asyncio.sleep(_RETRIED_S)
    now = await machine.state()
    if now is not None and now.disk_failed:
        raise GuestBusy(
            "QEMU has paused the VM, because reading or writing its disk on the node fails; a common cause is a full "
            "file system. The VM goes on when its disk can be used again"
        )


async def _wait(present: LiveVm, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        await present.off.wait()
