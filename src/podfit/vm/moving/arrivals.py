"""Receives VMs that are migrated to this host: records and prepares them before libvirt moves them, and takes them over
once they run."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from pathlib import Path

from podfit.cri import api_pb2 as cri
from podfit.kit.concurrency.tasks import Tasks
from podfit.vm import notices
from podfit.vm.cgroups import Cgroups
from podfit.vm.decide.sizes import size_of
from podfit.vm.guest.cloudinit import seed_of
from podfit.vm.guest.disks import Disks
from podfit.vm.guest.images import Images
from podfit.vm.life import Lifecycle
from podfit.vm.machines.events import RESUMED, STARTED, Event
from podfit.vm.machines.hypervisor import Hypervisor, LibvirtFailed
from podfit.vm.moving.places import CannotMove, Offer, PreparedTarget, place_of
from podfit.vm.reach.network import Networks
from podfit.vm.records import CREATED, RUNNING, Container, Records, Sandbox

log = logging.getLogger(__name__)


class Arrivals:
    def __init__(
        self,
        records: Records,
        hypervisor: Hypervisor,
        cgroups: Cgroups,
        disks: Disks,
        images: Images,
        lives: Lifecycle,
        networks: Networks,
        folder: Path,
        uri: str,
    ) -> None:
        """`uri`: of this host's libvirt daemon, as other hosts reach it."""
        self._records, self._hypervisor, self._cgroups = records, hypervisor, cgroups
        self._disks, self._images, self._lives, self._networks = disks, images, lives, networks
        self._folder, self._uri = folder.absolute(), uri
        self._tasks = Tasks("vm arrivals")

    async def close(self) -> None:
        await self._tasks.stop()

    async def prepare(self, sandbox: Sandbox, config: cri.ContainerConfig, offer: Offer) -> PreparedTarget:
        """Prepares for a VM; idempotent. Raises CannotMove, ImageMissing and errors of disk creation."""
        if self._hypervisor.embedded:
            raise CannotMove(
                "the VM runtime of this node has no libvirt daemon (--libvirt-socket): it cannot receive VMs"
            )
        container = self._records.containers.get(offer.id)
        if container is None:
            container = self._record(sandbox, config, offer)
        elif not container.arriving:
            raise CannotMove(f"this node already has a VM with the ID {offer.id}")
        await self._networks.receive(sandbox, offer.lease)
        self._records.save_sandbox(sandbox)
        await self._networks.before_start(sandbox)
        disks = await self._disks.create(container.id, container.image, seed_of(sandbox.config))
        self._cgroups.create(container.group)
        wanted = self._lives.limit_bytes(container, max(size_of(offer.limits).memory_mib, offer.layout.boot.memory_mib))
        self._cgroups.write(container.group, container.limits, wanted)
        self._records.save(container)
        self._lives.presence(container)
        definition = self._lives.definition(sandbox, container, disks)
        return place_of(definition, self._uri, self._socket(container, "m"), self._socket(container, "d"))

    def _record(self, sandbox: Sandbox, config: cri.ContainerConfig, offer: Offer) -> Container:
        parent = sandbox.config.linux.cgroup_parent or "/podfit-vm"
        linux = config.linux.resources
        return Container(
            id=offer.id,
            sandbox_id=sandbox.id,
            config=config,
            uuid=offer.uuid,
            group=f"{parent}/{offer.id}",
            image=self._images.take(config.image, sandbox.config.annotations, offer.id),
            layout=offer.layout,
            limits=replace(offer.limits, cpuset_cpus=linux.cpuset_cpus, cpuset_mems=linux.cpuset_mems),
            created_ns=offer.created_ns,
            started_ns=offer.started_ns,
            overhead_mib=offer.overhead_mib,
            offline_vcpus=offer.offline_vcpus,
            arriving=True,
        )

    def _socket(self, container: Container, kind: str) -> str:
        """The socket of the migration. On one machine QEMU connects to QEMU by a socket; between machines libvirt
        chooses a port."""
        return f"unix://{self._folder}/{kind}-{container.id[:13]}" if "unix" in self._uri.partition(":")[0] else ""

    def adopt(self, container: Container) -> None:
        """Takes over a VM that runs here. The caller has written the VM's previous log, which its log from here on
        follows."""
        if container.log_held:
            container.log_held = False
            self._records.save(container)
            if container.state == RUNNING:
                self._lives.presence(container).console.start()

    # --- events from libvirt
    def on_event(self, event: Event) -> None:
        container = self._lives.container_of(event.uuid)
        if container is not None and container.arriving and event.kind in (STARTED, RESUMED):
            self._tasks.start(self._recover_arrived(container), f"arrival {container.id[:13]}")

    async def _recover_arrived(self, container: Container) -> None:
        try:
            await self.recover(container)
        except (LibvirtFailed, OSError) as error:
            log.warning("incoming VM %s: %s", container.domain, error)

    async def recover(self, container: Container) -> None:
        """Takes the VM over if it runs here. libvirt defines a VM when it arrives, so one that is defined but off
        arrived and has stopped since."""
        machine = self._lives.machine(container)
        state = await machine.state()
        if state is None or container.state != CREATED or not container.arriving:
            return
        pid = machine.pid()
        if state.running and pid is not None:
            # QEMU is moved before it receives the guest's memory, if libvirt reported it early enough: all of the
            # memory is charged to the pod.
            self._cgroups.create(container.group)
            self._cgroups.adopt(container.group, pid)
        if state.running and state.paused:
            return
        if state.running:
            await self._networks.after_start(self._records.sandboxes[container.sandbox_id])
        container.arriving, container.state, container.log_held = False, RUNNING, True
        container.started_ns = container.started_ns or time.time_ns()
        self._records.save(container)
        if state.running and pid is not None:
            self._lives.watch(container, pid)
            self._lives.post(container, notices.STARTED)
        else:
            await self._lives.finish(container, None)
