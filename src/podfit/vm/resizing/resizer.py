"""Carries out CRI's UpdateContainerResources: one worker per VM brings it to the newest target.

Three stores hold a VM's size, and are written in this order: its cgroup, the runtime's record, libvirt's domain. The
cgroup is raised before the guest grows and lowered after it shrank, so QEMU always has room; if the domain cannot be
changed, the cgroup and the record are restored. The target is in the record before the first step, so that a restarted
runtime continues with it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial

from podfit.kit.concurrency.tasks import Tasks
from podfit.vm.cgroups import Cgroups
from podfit.vm.decide import progress
from podfit.vm.decide.conversions import settings_of, to_xml
from podfit.vm.decide.devices import plan
from podfit.vm.decide.refusals import GuestBusy, GuestUnsupported, Refused
from podfit.vm.decide.sizes import Limits, Size, size_of
from podfit.vm.life import Lifecycle
from podfit.vm.machines.guest import AgentFailed, GuestAgent
from podfit.vm.machines.hypervisor import Hypervisor, LibvirtFailed
from podfit.vm.records import RUNNING, Container, Records
from podfit.vm.resizing.memory import VmMemory
from podfit.vm.resizing.vcpus import set_vcpus
from podfit.vm.resizing.waits import Waits

log = logging.getLogger(__name__)
ANSWER_S = 8.0
"""The time that a caller waits for its target; the update continues without it."""


class Worker:
    """The update of one VM."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        """Requests are accepted in order of arrival."""
        self.wake = asyncio.Event()
        self.booted = False
        """The guest booted: which of its vCPUs and memory blocks are online is unknown."""
        self.failure: Exception | None = None
        self.task: asyncio.Task[None] | None = None
        self._answers: list[tuple[Size, asyncio.Future[None]]] = []

    def expect(self, target: Size) -> asyncio.Future[None]:
        """A future that ends with the next attempt to reach the target."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answers.append((target, answer))
        return answer

    def attempted(self, target: Size | None, now: Size | None) -> None:
        """Answers callers that wait for this target, and those whose target was replaced."""
        waiting, self._answers = self._answers, []
        for wanted, answer in waiting:
            if wanted == now and wanted != target:
                self._answers.append((wanted, answer))
            elif answer.done():
                continue
            elif wanted == target and self.failure is None:
                answer.set_result(None)
            else:
                answer.set_exception(self.failure or GuestBusy(f"a newer size replaced {wanted}"))
                # A caller that has disconnected is not answered.
                answer.exception()


class Resizer:
    def __init__(
        self, records: Records, hypervisor: Hypervisor, cgroups: Cgroups, lives: Lifecycle, waits: Waits
    ) -> None:
        self._records, self._hypervisor, self._cgroups = records, hypervisor, cgroups
        self._lives, self._waits = lives, waits
        self._workers: dict[str, Worker] = {}
        self._tasks = Tasks("vm resizes")

    def memory(self, container: Container) -> VmMemory:
        save = partial(self._records.save, container)
        return VmMemory(self._lives.machine(container), self.agent(container), container, self._waits, save)

    def agent(self, container: Container) -> GuestAgent:
        return GuestAgent(self._hypervisor, container.uuid)

    async def actual(self, container: Container) -> Size:
        """The guest's actual size."""
        now = await self.memory(container).present()
        return Size(now.vcpus - container.offline_vcpus, now.memory.usable(container.unused_mib))

    async def known(self, container: Container) -> Size:
        """The size that libvirt knows: for a VM whose QEMU does not respond."""
        live = await self._lives.machine(container).live()
        return Size(live.vcpus - container.offline_vcpus, live.memory.usable(container.unused_mib))

    # --- requests
    async def update(self, container: Container, newer: Limits) -> None:
        """Resizes a VM. Raises Refused, LibvirtFailed or OSError if the VM does not have its new size when this
        returns."""
        worker = self._workers.setdefault(container.id, Worker())
        async with worker.turn:
            target = await self._accept(container, worker, newer)
        await self._answer(worker.expect(target), target)

    async def _accept(self, container: Container, worker: Worker, newer: Limits) -> Size:
        if container.leaving:
            raise GuestBusy("the VM is being migrated to another node; it can be resized afterwards")
        limits = container.limits.updated(newer)
        target = size_of(limits)
        container.layout.check(target)
        settings_of(limits, target.vcpus)
        plan(container.layout, await self.memory(container).actual(), target.memory_mib)
        update = container.update
        if limits == container.limits and update is not None and update.target == target:
            if update.problem and not update.running:
                raise worker.failure or GuestBusy(update.problem)
            return target
        before = container.limits
        self._apply_limits(container, limits, target)
        worker.wake.set()
        self._run(container, worker, before)
        return target

    def _apply_limits(self, container: Container, limits: Limits, target: Size) -> None:
        """Writes the first two stores: cgroup, then record."""
        now = self._cgroups.memory_limit(container.group) or 0
        wanted = self._lives.limit_bytes(container, target.memory_mib)
        self._cgroups.write(container.group, limits, max(now, wanted))
        container.limits = limits
        container.update = progress.requested(container.update, target)
        self._records.save(container)

    async def _answer(self, answer: asyncio.Future[None], target: Size) -> None:
        try:
            async with asyncio.timeout(ANSWER_S):
                await asyncio.shield(answer)
        except TimeoutError:
            raise GuestBusy(f"the change to {target} is still in progress") from None

    def resume(self, container: Container) -> None:
        """Resumes an update that an earlier process began."""
        if container.update is not None and container.state == RUNNING:
            worker = self._workers.setdefault(container.id, Worker())
            worker.booted = True
            self._run(container, worker, container.limits)

    def _run(self, container: Container, worker: Worker, before: Limits) -> None:
        if worker.task is None or worker.task.done():
            worker.task = self._tasks.start(self._work(container, worker, before), f"resize {container.id[:13]}")

    # --- the worker
    async def _work(self, container: Container, worker: Worker, before: Limits) -> None:
        while container.update is not None and container.state == RUNNING:
            worker.wake.clear()
            target = container.update.target
            try:
                await self._attempt(container, worker, before)
            except (LibvirtFailed, OSError) as error:
                # libvirt went down: the target stays in the record, and the next attempt follows after a while.
                worker.failure = error
                if container.update is not None:
                    container.update = replace(progress.interrupted(container.update), problem=str(error))
            worker.attempted(target, container.update.target if container.update is not None else None)
            if container.update is None and worker.booted and worker.wake.is_set():
                # The guest booted while this attempt was in progress.
                self._examine(container)
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
        # Not saved: after a restart no step is running, whatever the record contains.
        container.update = progress.begun(container.update)
        worker.failure = None
        try:
            await self._apply(container, container.update.target, worker)
        except (Refused, LibvirtFailed, OSError) as error:
            worker.failure = error
        except AgentFailed as error:
            worker.failure = GuestUnsupported(str(error))
        if container.state != RUNNING:
            worker.failure = GuestBusy("the VM has stopped")
        elif isinstance(worker.failure, (LibvirtFailed, OSError)) and size_of(before) != container.update.target:
            await self._roll_back(container, before)
        else:
            await self._conclude(container, worker)

    async def _conclude(self, container: Container, worker: Worker) -> None:
        """Records the guest's current size; if it is not the target, another attempt follows."""
        assert container.update is not None
        actual = await self.actual(container)
        await self._settle(container, actual)
        left = progress.ended(container.update, actual, str(worker.failure or f"the guest has {actual}"))
        if left is None:
            worker.failure = None
        elif left.problem and worker.failure is None:
            worker.failure = GuestBusy(left.problem)
        container.update = left
        self._records.save(container)

    async def _apply(self, container: Container, target: Size, worker: Worker) -> None:
        """Changes the third store: libvirt's domain."""
        booted, worker.booted = worker.booted, False
        try:
            await self._change(container, target, booted)
        except BaseException:
            # The state of the guest after its boot is still unknown.
            worker.booted = worker.booted or booted
            raise

    async def _change(self, container: Container, target: Size, booted: bool) -> None:
        memory, lacks = self.memory(container), ""
        if booted:
            # An earlier process may have changed the running VM only, and died.
            await self._lives.machine(container).settle_definition()
        now = await memory.present()
        if booted or now.vcpus - container.offline_vcpus != target.vcpus:
            lacks = await self._set_vcpus(container, target.vcpus, booted)
            now = await memory.present()
        if container.limits.cpuset_cpus:
            await self._lives.machine(container).pin(container.limits.cpuset_cpus, self._hypervisor.host_cpus)
        await memory.set(now, target.memory_mib, booted)
        if lacks:
            raise GuestUnsupported(lacks)

    async def _set_vcpus(self, container: Container, count: int, booted: bool) -> str:
        """Sets the vCPUs. Returns what the guest lacks, if it does not use all of them."""
        machine, most, accelerated = (
            self._lives.machine(container),
            container.layout.max_vcpus,
            self._hypervisor.accelerated,
        )
        try:
            offline, lacks = await set_vcpus(
                machine, self.agent(container), count, container.offline_vcpus, most, accelerated
            )
        except GuestUnsupported:
            if booted:
                # The guest started with all of its vCPUs online.
                self._set_offline(container, 0)
            raise
        self._set_offline(container, offline)
        return lacks

    def _set_offline(self, container: Container, vcpus: int) -> None:
        if vcpus != container.offline_vcpus:
            container.offline_vcpus = vcpus
            self._records.save(container)
            self._lives.changed(container)

    async def _settle(self, container: Container, actual: Size) -> None:
        """Lowers the cgroup after a shrink, and updates the domain's definition."""
        target = size_of(container.limits)
        limit = self._lives.limit_bytes(container, max(actual.memory_mib, target.memory_mib))
        try:
            self._cgroups.write(container.group, container.limits, limit)
        except OSError as error:
            # The guest has shrunk, but QEMU has not freed the pages yet; the next change retries.
            log.warning("the memory limit of %s is not changed: %s", container.group, error)
        await self._lives.machine(container).set_size_xml(to_xml(settings_of(container.limits, actual.vcpus)))

    async def _roll_back(self, container: Container, before: Limits) -> None:
        log.warning("the size of %s is reverted to %s", container.domain, size_of(before))
        actual = await self.actual(container)
        container.limits, container.update = before, None
        self._cgroups.write(container.group, before, self._lives.limit_bytes(container, actual.memory_mib))
        self._records.save(container)

    # --- reactions to the guest
    def agent_is_up(self, container: Container) -> None:
        """Called when the guest agent connects. A guest that booted has all of its vCPUs online again: those beyond its
        limit go offline."""
        if container.state != RUNNING or container.leaving:
            return
        worker = self._workers.setdefault(container.id, Worker())
        if container.update is None:
            self._examine(container)
        worker.booted = True
        worker.wake.set()
        self._run(container, worker, container.limits)

    def _examine(self, container: Container) -> None:
        """Requests the present limits again, so that the guest's actual size is measured and brought to them."""
        container.update = progress.requested(None, size_of(container.limits))
        self._records.save(container)

    async def close(self) -> None:
        await self._tasks.stop()
