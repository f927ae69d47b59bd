"""The VM runtime: its components, startup and shutdown, and functions shared by several calls."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

from podfit.api.pods import machines
from podfit.cri import api_pb2 as cri
from podfit.kit.concurrency.tasks import Tasks
from podfit.kit.files.dirlock import DirectoryLock
from podfit.vm import LOCK
from podfit.vm.cgroups import Cgroups
from podfit.vm.decide.layout import DIMM
from podfit.vm.decide.sizes import Limits, actual_limits
from podfit.vm.guest.disks import Disks
from podfit.vm.guest.images import Images
from podfit.vm.life import Lifecycle
from podfit.vm.machines.events import AGENT_UP, Event
from podfit.vm.machines.hypervisor import Hypervisor, LibvirtFailed
from podfit.vm.moving.arrivals import Arrivals
from podfit.vm.moving.departures import Departures
from podfit.vm.notices import Notices
from podfit.vm.power import Power
from podfit.vm.reach.network import Networks
from podfit.vm.records import RUNNING, Container, Records, Sandbox
from podfit.vm.recovery import Recovery
from podfit.vm.resizing.resizer import Resizer
from podfit.vm.resizing.waits import Waits
from podfit.vm.server.answers import NotFound, container_status

log = logging.getLogger(__name__)


class Runtime:
    def __init__(
        self, folder: Path, hypervisor: Hypervisor, images: Images, networks: Networks, migration_uri: str = ""
    ) -> None:
        """`migration_uri`: the URI at which other hosts reach the libvirt daemon."""
        self.folder, self.hypervisor, self.images, self.networks = folder, hypervisor, images, networks
        self._migration_uri = migration_uri
        self._lock = DirectoryLock(folder, LOCK, "podfit vm-runtime", "two runtimes cannot share their VMs")
        self.notices, self.waits = Notices(), Waits()
        self._tasks = Tasks("vm volumes")

    async def open(self) -> None:
        """Starts the runtime. Raises InUse, CannotOpen, CannotRun or LibvirtFailed."""
        self._lock.take()
        self.records = Records(self.folder / "state.db")
        self.cgroups, disks = Cgroups(), Disks(self.folder / "vms")
        self.lives = Lifecycle(self.records, self.hypervisor, self.cgroups, disks, self.networks, self.notices)
        self.power = Power(self.lives)
        self.resizer = Resizer(self.records, self.hypervisor, self.cgroups, self.lives, self.waits)
        self.departures = Departures(self.records, self.hypervisor, self.lives, self.networks)
        self.arrivals = Arrivals(
            self.records,
            self.hypervisor,
            self.cgroups,
            disks,
            self.images,
            self.lives,
            self.networks,
            self.folder,
            self._migration_uri or self.hypervisor.uri,
        )
        await self.hypervisor.open(self._on_event)
        self._recovery = Recovery(self.records, self.hypervisor, self.cgroups, self.lives, self.arrivals)
        await self._recovery.run()
        self.hypervisor.returned = self._recovery.after_reconnection
        await self.networks.open(list(self.records.sandboxes.values()))
        for container in self.records.containers.values():
            self.resizer.resume(container)

    async def close(self) -> None:
        """Stops the runtime; VMs keep running."""
        await self.departures.close()
        await self.arrivals.close()
        await self._tasks.stop()
        await self.resizer.close()
        await self.lives.close()
        await self.networks.close()
        await self.hypervisor.close(vms_left=bool(self.records.containers or self.records.sandboxes))
        self.records.close()
        self._lock.release()

    def _on_event(self, event: Event) -> None:
        self.lives.on_event(event)
        self.arrivals.on_event(event)
        self.waits.on_event(event)
        container = self.lives.container_of(event.uuid)
        if event.kind == AGENT_UP and container is not None and container.state == RUNNING:
            self.resizer.agent_is_up(container)
            if container.config.mounts or container.config.devices:
                self._tasks.start(self.lives.mount_volumes(container, self.resizer.agent(container)), "volumes")

    # --- lookups
    def sandbox(self, id: str) -> Sandbox:
        found = self.records.sandboxes.get(id)
        if found is None:
            raise NotFound(f"no sandbox {id!r}")
        return found

    def container(self, id: str) -> Container:
        found = self.records.containers.get(id)
        if found is None:
            raise NotFound(f"no container {id!r}")
        return found

    def containers_of(self, sandbox_id: str) -> list[Container]:
        return [container for container in self.records.containers.values() if container.sandbox_id == sandbox_id]

    async def remove(self, container: Container) -> None:
        await self.lives.remove(container)
        self.power.forget(container)
        self.images.release(container.image, container.id)

    # --- status
    async def status(self, container: Container) -> cri.ContainerStatus:
        path = self.lives.log_path(container)
        return container_status(container, await self._actual(container), str(path) if path is not None else "")

    async def _actual(self, container: Container) -> Limits:
        """The limits in force in the guest; while no guest runs, the configured ones."""
        # Queries of a migrating VM would wait for the end of the migration, or forever.
        if container.state != RUNNING or container.leaving:
            return container.limits
        try:
            return actual_limits(container.limits, await self.resizer.actual(container))
        except LibvirtFailed as error:
            if container.state != RUNNING or error.not_running:
                return container.limits
            if error.unanswered:
                return actual_limits(container.limits, await self.resizer.known(container))
            # The limits are a target while a resize is in progress: the guest does not have that size yet.
            if error.gone or container.update is not None:
                raise
            log.debug("the size of %s: %s", container.domain, error)
            return container.limits

    async def info(self, container: Container) -> dict[str, str]:
        """Additional data shown by `crictl inspect`."""
        update, layout = container.update, container.layout
        running = container.state == RUNNING and not container.leaving
        power = await self.power.actual(container) if running else machines.RUNNING
        about: dict[str, Any] = {
            "machine": {
                "power": power,
                "boot_memory_mib": layout.boot.memory_mib,
                "max_memory_mib": layout.max_memory_mib,
                "max_vcpus": layout.max_vcpus,
                "slots": layout.slots if layout.device == DIMM else 0,
                "offline_vcpus": container.offline_vcpus,
            },
            "domain": container.domain,
            "uuid": container.uuid,
            "cgroup": container.group,
            "layout": layout.to_json(),
            "update": update.to_json() if update is not None else None,
        }
        if running and power == machines.RUNNING:
            about |= await self._guest_info(container)
        return {"info": json.dumps(about)}

    async def _guest_info(self, container: Container) -> dict[str, Any]:
        try:
            memory = await self.resizer.memory(container).actual()
        except LibvirtFailed as error:
            if not error.unanswered:
                raise
            return {"problem": str(error)}
        found = {
            "bootMiB": memory.boot,
            "devices": [[device.size, device.node] for device in memory.devices],
            "balloonMiB": memory.balloon,
            "virtioMiB": memory.virtio,
        }
        return {"memory": found, "agent": await self._agent_answers(container)}

    async def _agent_answers(self, container: Container) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(10):
                return await self.resizer.agent(container).answers()
        return False
