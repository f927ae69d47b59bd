"""Reconciles records, domains and cgroups when the runtime starts, whatever it was doing when it ended, and after a
reconnection to a libvirt daemon.

The records determine which VMs exist, libvirt determines which of them run: a VM is never started here, and one that
stopped meanwhile is recorded as exited.
"""

from __future__ import annotations

import logging

from podfit.api.pods import machines
from podfit.vm.cgroups import Cgroups
from podfit.vm.decide.progress import interrupted
from podfit.vm.life import Lifecycle
from podfit.vm.machines.hypervisor import Hypervisor
from podfit.vm.machines.machine import Machine, State
from podfit.vm.moving.arrivals import Arrivals
from podfit.vm.records import CREATED, EXITED, RUNNING, Container, Records

log = logging.getLogger(__name__)


class Recovery:
    def __init__(
        self, records: Records, hypervisor: Hypervisor, cgroups: Cgroups, lives: Lifecycle, arrivals: Arrivals
    ) -> None:
        self._records, self._hypervisor, self._cgroups = records, hypervisor, cgroups
        self._lives, self._arrivals = lives, arrivals

    async def run(self) -> None:
        await self._drop_unknown()
        for container in list(self._records.containers.values()):
            await self._recover(container)

    async def after_reconnection(self) -> None:
        """Handles events lost while the daemon was down. Calls without a response are left to their callers, which
        retry."""
        for container in list(self._records.containers.values()):
            if container.state == EXITED:
                continue
            if container.arriving or container.leaving:
                await self._recover(container)
                continue
            machine = self._lives.machine(container)
            state = await machine.state()
            if state is not None and state.running and container.state == CREATED:
                await self._resume(container, machine)
            elif container.state == RUNNING and (state is None or not state.running):
                await self._ended(container, state)

    async def _drop_unknown(self) -> None:
        """Removes domains of this runtime without a record: their creation never finished, and no caller knows them."""
        known = {container.uuid for container in self._records.containers.values()}
        for uuid, name in (await self._hypervisor.names()).items():
            if name.startswith("podfit-") and uuid not in known and self._hypervisor.embedded:
                log.info("removing the domain %s, which has no record", name)
                machine = Machine(self._hypervisor, name, uuid)
                await machine.destroy()
                await machine.undefine()

    async def _recover(self, container: Container) -> None:
        if container.state == EXITED or container.moved:
            return
        if container.arriving:
            await self._arrivals.recover(container)
            return
        machine = self._lives.machine(container)
        state = await machine.state()
        if container.leaving and (state is None or not state.running) and await self._lives.departed(container):
            return
        if state is None and container.state == CREATED:
            # The VM is recorded, but not defined yet: the caller got no response and creates it again.
            await self._lives.clear(container)
        elif state is not None and state.running:
            await self._resume(container, machine)
        elif container.state == RUNNING and not (state is not None and await self._lives.is_off_on_purpose(container)):
            await self._ended(container, state)

    async def _ended(self, container: Container, state: State | None) -> None:
        present = self._lives.presence(container)
        present.crashed = state is None or state.why_off in ("crashed", "failed")
        present.shut_down = state is not None and state.why_off == "shutdown"
        await self._lives.finish(container, None)

    async def _resume(self, container: Container, machine: Machine) -> None:
        if container.state != RUNNING:
            container.state, container.started_ns = RUNNING, container.started_ns or container.created_ns
        # The caller that requested to turn it off got no response and retries.
        container.power = machines.RUNNING
        if container.update is not None:
            container.update = interrupted(container.update)
        self._records.save(container)
        await self._lives.connect(container)
        pid = machine.pid()
        if pid is not None:
            self._cgroups.create(container.group)
            self._cgroups.adopt(container.group, pid)
            if pid not in self._hypervisor.processes:
                self._lives.watch(container, pid)
