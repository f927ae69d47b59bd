"""Migrates VMs away from this host. A migration is in the VM's record before libvirt is called.

libvirt removes a domain from its source only after it runs at its destination. So a VM whose domain exists on this host
has not left, however the migration was interrupted. A VM without a domain here, or one that is off because it was
migrated, has left.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

import libvirt

from podfit.api.pods import machines
from podfit.vm.life import Lifecycle
from podfit.vm.machines.hypervisor import Hypervisor, LibvirtFailed
from podfit.vm.machines.machine import MIGRATED
from podfit.vm.moving.places import CannotMove, Offer, PreparedTarget, rewritten
from podfit.vm.reach.network import Networks
from podfit.vm.records import RUNNING, Container, Records

log = logging.getLogger(__name__)
RESIZE_S = 30.0
"""The time that a resize in progress may take before a migration is refused."""
MOVE_S = 600.0
UNDEFINED_S = 5.0
"""The time that libvirt may take to remove a domain whose QEMU has exited."""
_CHECK_EVERY_S = 0.1
_FLAGS = (
    libvirt.VIR_MIGRATE_LIVE
    | libvirt.VIR_MIGRATE_PEER2PEER
    | libvirt.VIR_MIGRATE_PERSIST_DEST
    | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
    | libvirt.VIR_MIGRATE_AUTO_CONVERGE
)


class Departures:
    def __init__(self, records: Records, hypervisor: Hypervisor, lives: Lifecycle, networks: Networks) -> None:
        self._records, self._hypervisor, self._lives, self._networks = records, hypervisor, lives, networks
        self._moves: dict[str, asyncio.Task[None]] = {}
        lives.departed = self.departed

    async def close(self) -> None:
        """Ends this process's tasks. libvirt continues migrations in progress."""
        for move in self._moves.values():
            move.cancel()
        await asyncio.gather(*self._moves.values(), return_exceptions=True)

    async def offer(self, container: Container) -> Offer:
        """Describes a VM for its migration. Raises CannotMove."""
        if self._hypervisor.embedded:
            raise CannotMove(
                "the VM runtime of this node has no libvirt daemon (--libvirt-socket): its VMs cannot be migrated"
            )
        if container.config.devices:
            raise CannotMove("the VM has block volumes, which stay on their node")
        await self._without_resize(container)
        if (power := await self._lives.power(container)) != machines.RUNNING:
            raise CannotMove(f"the VM is {power.lower()}: only a running VM can be migrated")
        sandbox = self._records.sandboxes[container.sandbox_id]
        return Offer(
            container.id,
            container.uuid,
            container.layout,
            container.limits,
            container.offline_vcpus,
            container.overhead_mib,
            container.created_ns,
            container.started_ns,
            self._networks.of(sandbox).mac,
            sandbox.lease,
        )

    async def _without_resize(self, container: Container) -> None:
        """Ensures that no resize is in progress: QEMU would refuse a device plugged during a migration."""
        if container.state != RUNNING:
            raise CannotMove(f"the VM is {container.state}, not running")
        deadline = asyncio.get_running_loop().time() + RESIZE_S
        while container.update is not None:
            if asyncio.get_running_loop().time() > deadline:
                raise CannotMove(f"a resize to {container.update.target} is in progress: {container.update.problem}")
            await asyncio.sleep(_CHECK_EVERY_S)

    # --- migration
    async def leave(self, container: Container, place: PreparedTarget) -> None:
        """Migrates a VM. Returns when it runs at the target. Raises CannotMove or LibvirtFailed; after the latter it
        may be unknown where the VM runs. Called again, it resumes the migration in progress."""
        move = self._moves.get(container.id)
        if move is None or move.done():
            move = self._moves[container.id] = asyncio.ensure_future(self._leave(container, place))
        try:
            await asyncio.shield(move)
        finally:
            if move.done():
                self._moves.pop(container.id, None)

    async def _leave(self, container: Container, place: PreparedTarget) -> None:
        if container.moved:
            return
        if not container.leaving:
            await self._without_resize(container)
            container.leaving = place.uri
            self._records.save(container)
        if await self._under_way(container):
            return
        try:
            await self._migrate(container, place)
        except LibvirtFailed as error:
            # The other daemon may be gone. The outcome of the migration is unknown only if this one is.
            if error.gone and not await self._hypervisor.alive():
                raise
            # Perhaps only the response was lost: a VM that is not here has left.
            if not await self._has_left(container):
                raise CannotMove(str(error)) from error
        await self._concluded(container)

    async def _under_way(self, container: Container, abort: bool = False) -> bool:
        """Waits for a migration that an earlier process began; `abort` cancels it. True if the VM has left."""
        while True:
            try:
                if await self._hypervisor.on(container.uuid, lambda domain: domain.jobInfo()[0]) == 0:
                    return False
                if abort:
                    abort = False
                    with suppress(LibvirtFailed):
                        await self._hypervisor.on(container.uuid, lambda domain: domain.abortJob())
            except LibvirtFailed as error:
                if not error.no_domain and not error.not_running:
                    raise
                if not await self.departed(container):
                    raise CannotMove("the VM has stopped") from error
                return True
            await asyncio.sleep(_CHECK_EVERY_S)

    async def _has_left(self, container: Container) -> bool:
        state = await self._lives.machine(container).state()
        return state is None or state.why_off == MIGRATED

    async def _migrate(self, container: Container, place: PreparedTarget) -> None:
        def migrate(domain: Any) -> None:
            live = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_MIGRATABLE | libvirt.VIR_DOMAIN_XML_SECURE)
            kept = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
            given = {
                libvirt.VIR_MIGRATE_PARAM_DEST_XML: rewritten(live, place),
                libvirt.VIR_MIGRATE_PARAM_PERSIST_XML: rewritten(kept, place),
            }
            flags = _FLAGS
            if place.transport:
                given[libvirt.VIR_MIGRATE_PARAM_URI] = place.transport
            if place.disks:
                # Only data written by the VM is copied: both hosts have the image.
                flags |= libvirt.VIR_MIGRATE_NON_SHARED_INC
            if place.disk_transport:
                given[libvirt.VIR_MIGRATE_PARAM_DISKS_URI] = place.disk_transport
            domain.migrateToURI3(place.uri, given, flags)

        call = asyncio.ensure_future(self._hypervisor.on(container.uuid, migrate))
        try:
            async with asyncio.timeout(MOVE_S):
                await asyncio.shield(call)
        except TimeoutError:
            with suppress(LibvirtFailed):
                await self._hypervisor.on(container.uuid, lambda domain: domain.abortJob())
            await call

    async def departed(self, container: Container) -> bool:
        """Whether QEMU has exited because the VM runs on another host."""
        move = self._moves.get(container.id)
        if move is not None and move is not asyncio.current_task():
            await asyncio.wait({move})
        deadline = asyncio.get_running_loop().time() + UNDEFINED_S
        while not container.moved and asyncio.get_running_loop().time() < deadline:
            with suppress(LibvirtFailed):
                if await self._has_left(container):
                    await self._concluded(container)
                    break
            await asyncio.sleep(_CHECK_EVERY_S)
        return container.moved

    async def _concluded(self, container: Container) -> None:
        if not container.moved:
            container.moved = True
            self._records.save(container)
            await self._lives.presence(container).console.close()

    async def stay(self, container: Container) -> None:
        """The migration is cancelled. The guest keeps running, even if libvirt was interrupted while it was paused."""
        if container.moved or (container.leaving and await self._under_way(container, abort=True)):
            raise CannotMove("the VM has already been migrated")
        state = await self._lives.machine(container).state()
        if container.leaving and state is not None and state.running and state.paused:
            await self._hypervisor.on(container.uuid, lambda domain: domain.resume())
        container.leaving = ""
        self._records.save(container)
