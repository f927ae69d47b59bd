"""UpdateContainerResources: one worker per VM that brings it to the newest target.

Three stores hold a VM's size, and are written in this order: its cgroup, the runtime's record, libvirt's domain. The
cgroup is raised before the guest grows and lowered after it shrank, so QEMU always has room; if the domain cannot be
changed, the cgroup and the record go back. The target is in the record before the first step, so that a runtime that
was killed goes on with it.
"""

from __future__ import annotations

import asyncio
import logging

from podfit.kit.tasks import Tasks
from podfit.vm.cgroups import Cgroups
from podfit.vm.decide import progress
from podfit.vm.decide.conversions import settings_of, to_xml
from podfit.vm.decide.devices import plan
from podfit.vm.decide.refusals import GuestBusy, Refused
from podfit.vm.decide.sizes import Limits, Size, size_of
from podfit.vm.life import Lives
from podfit.vm.machines.guest import GuestAgent
from podfit.vm.machines.hypervisor import Hypervisor, LibvirtFailed
from podfit.vm.records import RUNNING, Container, Records
from podfit.vm.resizing.memory import MemoryOf
from podfit.vm.resizing.vcpus import set_vcpus
from podfit.vm.resizing.waits import Waits

log = logging.getLogger(__name__)
ANSWER_S = 20.0
"""How long a caller waits for its target; the work goes on without it."""


class Worker:
    """The update of one VM."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.attempted = asyncio.Event()
        """Set at the end of each attempt."""
        self.failure: Exception | None = None
        self.task: asyncio.Task[None] | None = None


class Resizer:
    def __init__(self, records: Records, hypervisor: Hypervisor, cgroups: Cgroups, lives: Lives, waits: Waits) -> None:
        self._records, self._hypervisor, self._cgroups = records, hypervisor, cgroups
        self._lives, self._waits = lives, waits
        self._workers: dict[str, Worker] = {}
        self._tasks = Tasks("vm resizes")

    def memory(self, container: Container) -> MemoryOf:
        return MemoryOf(self._lives.machine(container), self.agent(container), container.layout, self._waits)

    def agent(self, container: Container) -> GuestAgent:
        return GuestAgent(self._hypervisor, container.uuid)

    async def actual(self, container: Container) -> Size:
        """What the guest really has."""
        live = await self._lives.machine(container).live()
        memory = await self.memory(container).actual()
        return Size(live.vcpus - container.offline_vcpus, memory.guest)

    # --- requests
    async def update(self, container: Container, newer: Limits) -> None:
        """Raises Refused, LibvirtFailed or OSError if the VM does not have its new size when this returns."""
        limits = container.limits.updated(newer)
        target = size_of(limits)
        container.layout.check(target)
        settings_of(limits, target.vcpus)
        if container.state == RUNNING:
            plan(container.layout, await self.memory(container).actual(), target.memory_mib)
        worker = self._workers.setdefault(container.id, Worker())
        waiting = container.update is not None and container.update.target == target and limits == container.limits
        if waiting and container.update is not None and container.update.problem and not container.update.running:
            raise GuestBusy(container.update.problem)
        if not waiting:
            before = container.limits
            await self._promise(container, limits, target)
            worker.attempted.clear()
            worker.wake.set()
            self._run(container, worker, before)
        await self._answer(container, worker)

    async def _promise(self, container: Container, limits: Limits, target: Size) -> None:
        """The first two stores: cgroup, then record."""
        now = self._cgroups.memory_limit(container.group) or 0
        wanted = self._lives.limit_bytes(container, target.memory_mib)
        self._cgroups.write(container.group, limits, max(now, wanted))
        container.limits = limits
        container.update = progress.requested(container.update, target)
        self._records.save(container)

    async def _answer(self, container: Container, worker: Worker) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                while container.update is not None:
                    await worker.attempted.wait()
                    if container.update is not None and worker.wake.is_set():
                        worker.attempted.clear()
                        continue
                    break
        except TimeoutError:
            raise GuestBusy(
                f"the change to {container.limits and size_of(container.limits)} is still going on"
            ) from None
        if worker.failure is not None:
            raise worker.failure

    def resume(self, container: Container) -> None:
        """Goes on with an update that an earlier process began."""
        if container.update is not None and container.state == RUNNING:
            self._run(container, self._workers.setdefault(container.id, Worker()), container.limits)

    def _run(self, container: Container, worker: Worker, before: Limits) -> None:
        if worker.task is None or worker.task.done():
            worker.task = self._tasks.start(self._work(container, worker, before), f"resize {container.id[:13]}")

    # --- the worker
    async def _work(self, container: Container, worker: Worker, before: Limits) -> None:
        while container.update is not None and container.state == RUNNING:
            worker.wake.clear()
            await self._attempt(container, worker, before)
            worker.attempted.set()
            if container.update is None:
                return
            if container.update.problem:
                await self._pause(worker, progress.retry_after(container.update.attempts))
            before = container.limits

    @staticmethod
    async def _pause(worker: Worker, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await worker.wake.wait()
        except TimeoutError:
            return

    async def _attempt(self, container: Container, worker: Worker, before: Limits) -> None:
        assert container.update is not None
        container.update = progress.begun(container.update)
        self._records.save(container)
        worker.failure = None
        try:
            await self._apply(container, container.update.target)
        except Refused as error:
            worker.failure = error
        except (LibvirtFailed, OSError) as error:
            worker.failure = error
            if container.state == RUNNING and size_of(before) != container.update.target:
                await self._roll_back(container, before)
                return
        if container.state != RUNNING:
            return
        actual = await self.actual(container)
        await self._settle(container, actual)
        container.update = progress.ended(container.update, actual, str(worker.failure or ""))
        if container.update is None:
            worker.failure = None
        elif not container.update.problem and container.update.attempts:
            container.update = progress.Update(container.update.target, problem=f"the guest has {actual}", attempts=1)
        self._records.save(container)

    async def _apply(self, container: Container, target: Size) -> None:
        """The third store: libvirt's domain."""
        machine = self._lives.machine(container)
        offline = await set_vcpus(machine, self.agent(container), target.vcpus, self._hypervisor.accelerated)
        if offline != container.offline_vcpus:
            container.offline_vcpus = offline
            self._records.save(container)
        if container.limits.cpuset_cpus:
            await machine.pin(container.limits.cpuset_cpus, self._hypervisor.host_cpus)
        await self.memory(container).set(target.memory_mib)

    async def _settle(self, container: Container, actual: Size) -> None:
        """The cgroup follows a guest that shrank; the domain's definition says what was set."""
        target = size_of(container.limits)
        limit = self._lives.limit_bytes(container, max(actual.memory_mib, target.memory_mib))
        try:
            self._cgroups.write(container.group, container.limits, limit)
        except OSError as error:
            # The guest has shrunk, but QEMU has not given the pages back yet; the next change tries again.
            log.warning("the memory limit of %s stays: %s", container.group, error)
        await self._lives.machine(container).set_size_xml(to_xml(settings_of(container.limits, actual.vcpus)))

    async def _roll_back(self, container: Container, before: Limits) -> None:
        log.warning("the size of %s goes back to %s", container.domain, size_of(before))
        actual = await self.actual(container)
        container.limits, container.update = before, None
        self._cgroups.write(container.group, before, self._lives.limit_bytes(container, actual.memory_mib))
        self._records.save(container)

    # --- what the guest does by itself
    async def agent_is_up(self, container: Container) -> None:
        """A guest that booted has all of its vCPUs online again: those it must not use go offline."""
        if container.state == RUNNING and container.update is None:
            target = size_of(container.limits)
            container.update = progress.requested(None, target)
            self._run(container, self._workers.setdefault(container.id, Worker()), container.limits)

    async def close(self) -> None:
        await self._tasks.stop()
