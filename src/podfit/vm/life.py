"""Manages the lifecycle of VMs: created, started, stopped, exited, removed. Every change is recorded before it is
reported."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from podfit.api.pods import machines
from podfit.vm import notices
from podfit.vm.cgroups import Cgroups
from podfit.vm.decide.conversions import settings_of, to_xml
from podfit.vm.decide.sizes import MIB
from podfit.vm.guest import cloudinit
from podfit.vm.guest.blocks import disks_of, link_in_guest
from podfit.vm.guest.disks import Disks
from podfit.vm.guest.shares import Share, Shares, mount_in_guest, shares_of
from podfit.vm.machines.definition import Definition, Disk, Filesystem, domain_xml
from podfit.vm.machines.events import CRASHED, DISK_FAILED, SHUTDOWN, STOPPED, Event
from podfit.vm.machines.guest import GuestAgent
from podfit.vm.machines.hypervisor import Hypervisor, LibvirtFailed
from podfit.vm.machines.machine import Machine
from podfit.vm.notices import Notice, Notices
from podfit.vm.reach.consoles import Console
from podfit.vm.reach.network import Networks
from podfit.vm.records import EXITED, RUNNING, Container, Records, Sandbox

log = logging.getLogger(__name__)
KILLED = 137
_REASON_WAIT_S, _CRASH_WAIT_S = 2.0, 0.3
"""The time that libvirt may take to report why a VM stopped. It reports a shutdown or a panic before it ends QEMU.
Without such a report, and if QEMU's exit code is unknown too, QEMU has crashed, which libvirt itself may notice
late."""
_PRESS_AGAIN_S = (1.0, 2.0, 4.0, 8.0)
"""A guest that is still booting ignores its power button, so it is pressed at these intervals, of which the last is
repeated."""


@dataclass
class LiveVm:
    """This process's state of an existing VM."""

    machine: Machine
    console: Console
    lock: asyncio.Lock
    ended: asyncio.Event
    stopped: asyncio.Event
    """libvirt has cleaned up after QEMU."""
    off: asyncio.Event = field(default_factory=asyncio.Event)
    """QEMU has exited."""
    killed: bool = False
    shut_down: bool = False
    panicked: bool = False
    """The guest's kernel panicked."""
    crashed: bool = False
    oom_kills: int = 0


class Lifecycle:
    def __init__(
        self,
        records: Records,
        hypervisor: Hypervisor,
        cgroups: Cgroups,
        disks: Disks,
        networks: Networks,
        posts: Notices,
    ) -> None:
        self._records, self._hypervisor, self._cgroups = records, hypervisor, cgroups
        self._disks, self._networks, self._posts = disks, networks, posts
        self.shares = Shares(disks.beside("shares"))
        self._present: dict[str, LiveVm] = {}
        self._by_uuid: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.departed: Callable[[Container], Awaitable[bool]] = _never
        """Whether the VM was migrated to another host; set by the departures."""

    def presence(self, container: Container) -> LiveVm:
        found = self._present.get(container.id)
        if found is None:
            machine = Machine(self._hypervisor, container.domain, container.uuid)
            console = self._console(container)
            found = LiveVm(machine, console, asyncio.Lock(), asyncio.Event(), asyncio.Event())
            self._present[container.id], self._by_uuid[container.uuid] = found, container.id
        return found

    def _console(self, container: Container) -> Console:
        return Console(self._disks.console(container.id), self.log_path(container))

    def machine(self, container: Container) -> Machine:
        return self.presence(container).machine

    def container_of(self, uuid: str) -> Container | None:
        return self._records.containers.get(self._by_uuid.get(uuid, ""))

    def log_path(self, container: Container) -> Path | None:
        sandbox = self._records.sandboxes.get(container.sandbox_id)
        folder = sandbox.config.log_directory if sandbox is not None else ""
        return Path(folder) / container.config.log_path if folder and container.config.log_path else None

    def disk_bytes(self, container: Container) -> int:
        """The VM's writes to its own disk, and its console log."""
        files = [path.stat() for path in self._disks.of(container.id).rglob("*") if path.is_file()]
        return sum(about.st_blocks * 512 for about in files)

    def limit_bytes(self, container: Container, memory_mib: int) -> int:
        """The limit of the VM's cgroup: the guest's memory plus QEMU's own."""
        return (memory_mib + container.overhead_mib) * MIB

    # --- create
    async def create(self, sandbox: Sandbox, container: Container) -> None:
        """Creates a VM; a failure is rolled back. The record is written first: after a crash it names what has to be
        removed for a VM without a domain."""
        try:
            self._records.save(container)
            await self.define(sandbox, container)
        except BaseException:
            await self._undo(container)
            raise
        self.presence(container)
        self.post(container, notices.CREATED)

    async def define(self, sandbox: Sandbox, container: Container) -> None:
        """Writes the VM's size to its cgroup, record and domain, in this order."""
        blocks = disks_of(container.config.devices, sandbox.config.annotations)
        shares = await self.shares.prepare(container.id, self._shares_of(sandbox, container))
        disks = await self._disks.create(container.id, container.image, cloudinit.seed_of(sandbox.config))
        self._cgroups.create(container.group)
        boot = container.layout.boot
        self._cgroups.write(container.group, container.limits, self.limit_bytes(container, boot.memory_mib))
        self._records.save(container)
        filesystems = tuple(Filesystem(str(share.source), share.tag, share.daemon) for share in shares)
        definition = replace(self.definition(sandbox, container, disks + blocks), filesystems=filesystems)
        await self._hypervisor.define(domain_xml(definition))

    def definition(self, sandbox: Sandbox, container: Container, disks: tuple[Disk, ...]) -> Definition:
        image, network = container.image, self._networks.of(sandbox)
        return Definition(
            name=container.domain,
            uuid=container.uuid,
            layout=container.layout,
            console_log=str(self._disks.console(container.id)),
            agent_socket=str(self._hypervisor.root / f"agent-{container.id[:13]}"),
            size_xml=to_xml(settings_of(container.limits, container.layout.boot.vcpus)),
            accelerated=self._hypervisor.accelerated,
            emulator=self._hypervisor.emulator,
            kernel=image.kernel,
            initrd=image.initrd,
            cmdline=f"{image.cmdline} {self._networks.cmdline(sandbox)}".strip(),
            disks=disks,
            network=network,
            cpuset=container.limits.cpuset_cpus,
        )

    async def _undo(self, container: Container) -> None:
        with suppress(LibvirtFailed):
            await Machine(self._hypervisor, container.domain, container.uuid).undefine()
        await self.clear(container)

    async def clear(self, container: Container) -> None:
        """Removes what is left of a VM without a domain; the record, which names it, is removed last."""
        self._cgroups.remove(container.group)
        self._disks.remove(container.id)
        await self.shares.remove(container.id)
        self._records.drop(container.id)

    # --- start
    async def start(self, container: Container) -> None:
        """Starts a VM in the power state of its annotation: running, paused, or off."""
        present, power = self.presence(container), container.config.annotations.get(machines.POWER)
        async with present.lock:
            pid = 0
            if power == machines.SHUTDOWN:
                container.power = machines.SHUTDOWN
            else:
                pid = await self._power_up(container, power == machines.PAUSED)
            container.state, container.started_ns = RUNNING, time.time_ns()
            self._records.save(container)
            if pid:
                self.watch(container, pid)
        self.post(container, notices.STARTED)

    async def boot(self, container: Container, paused: bool) -> None:
        """Starts a VM again that was shut down or suspended."""
        present = self.presence(container)
        async with present.lock:
            present.off.clear()
            present.stopped.clear()
            present.shut_down = present.panicked = present.crashed = False
            present.console = self._console(container)
            self.watch(container, await self._power_up(container, paused))

    async def _power_up(self, container: Container, paused: bool) -> int:
        sandbox = self._records.sandboxes[container.sandbox_id]
        enter_network, leave_network = self._networks.door(sandbox)

        def enter() -> None:
            enter_network()
            self._cgroups.enter(container.group)

        def leave() -> None:
            self._cgroups.leave(container.group)
            leave_network()

        await self._networks.before_start(sandbox)
        pid = await self.presence(container).machine.start(enter, leave, paused)
        await self._networks.after_start(sandbox)
        if self._cgroups.v2 or not self._hypervisor.embedded:
            self._cgroups.adopt(container.group, pid)
        return pid

    async def connect(self, container: Container) -> None:
        """Sets up the network of a running VM, because an earlier process may have died before it did."""
        try:
            await self._networks.after_start(self._records.sandboxes[container.sandbox_id])
        except OSError as error:
            log.warning("the network of %s: %s", container.domain, error)

    @staticmethod
    def _shares_of(sandbox: Sandbox, container: Container) -> tuple[Share, ...]:
        return shares_of(container.config.mounts, sandbox.config.annotations.get(machines.TOKEN) == "true")

    async def mount_volumes(self, container: Container, agent: GuestAgent) -> None:
        """Mounts volumes in a booted guest; those that cannot be mounted are named in the container's log."""
        sandbox = self._records.sandboxes[container.sandbox_id]
        problems = await mount_in_guest(agent, self._shares_of(sandbox, container))
        for problem in problems + await link_in_guest(agent, container.config.devices):
            log.warning("a volume of %s cannot be mounted in the guest: %s", container.domain, problem)
            self.presence(container).console.say(f"podfit: the volume cannot be mounted in the guest: {problem}")

    # --- power
    async def power(self, container: Container) -> str:
        """The power state: libvirt's for a VM that is on, the record's for one that is off."""
        state = await self.machine(container).state()
        if state is not None and state.running:
            return machines.PAUSED if state.paused else machines.RUNNING
        return container.power

    def mark(self, container: Container, power: str) -> None:
        container.power = power
        self._records.save(container)

    def changed(self, container: Container) -> None:
        """Emits an event, after which followers read the container's status again."""
        self.post(container, notices.STARTED)

    def watch(self, container: Container, pid: int) -> None:
        """Follows the console and the process of a running VM."""
        present = self.presence(container)
        present.oom_kills = self._cgroups.usage(container.group).oom_kills
        if not container.log_held:
            present.console.start()

        def ended(code: int | None) -> None:
            task = asyncio.ensure_future(self._over(container, present, code))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._hypervisor.processes.watch(pid, ended)

    # --- exit
    def on_event(self, event: Event) -> None:
        """Handles libvirt's events; the exit is reported by the process itself."""
        container = self.container_of(event.uuid)
        present = self._present.get(container.id) if container is not None else None
        if present is None:
            return
        if event.kind == SHUTDOWN:
            present.shut_down = True
        elif event.kind == CRASHED:
            present.panicked = True
        elif event.kind == STOPPED:
            present.stopped.set()
        elif event.kind == DISK_FAILED and container is not None:
            self.changed(container)

    async def _over(self, container: Container, present: LiveVm, code: int | None) -> None:
        if container.leaving and await self.departed(container):
            return
        if await self.is_off_on_purpose(container):
            await present.console.close()
            present.off.set()
            self.changed(container)
            return
        if not code and not present.killed:
            # QEMU exited regularly, or is not a child of this process: libvirt records whether the guest shut down or
            # crashed.
            known = code == 0 or present.shut_down or present.panicked
            with suppress(TimeoutError):
                async with asyncio.timeout(_REASON_WAIT_S if known else _CRASH_WAIT_S):
                    await present.stopped.wait()
            with suppress(LibvirtFailed):
                state = await present.machine.state()
                present.crashed |= state is not None and state.why_off in ("crashed", "failed")
                present.shut_down |= state is not None and state.why_off == "shutdown"
            present.crashed |= not (known or present.shut_down)
        await self.finish(container, code)

    async def is_off_on_purpose(self, container: Container) -> bool:
        """Whether the VM is off by request. A VM that stopped before its memory was saved is not suspended."""
        if container.power == machines.SUSPENDED:
            with suppress(LibvirtFailed):
                return await self.machine(container).is_saved()
        return container.power == machines.SHUTDOWN

    async def finish(self, container: Container, code: int | None) -> None:
        """Records once how a VM exited."""
        present = self.presence(container)
        if container.state == EXITED:
            return
        await present.console.close()
        container.exit_code, container.reason, container.message = self._verdict(container, present, code)
        container.state, container.finished_ns, container.update = EXITED, time.time_ns(), None
        container.power = machines.RUNNING
        self._records.save(container)
        present.ended.set()
        present.off.set()
        self.post(container, notices.STOPPED)

    def _verdict(self, container: Container, present: LiveVm, code: int | None) -> tuple[int, str, str]:
        if self._cgroups.usage(container.group).oom_kills > present.oom_kills:
            return KILLED, "OOMKilled", "QEMU exceeded the memory limit of the VM's cgroup"
        if present.killed:
            return KILLED, "Error", "the guest did not shut down within its grace period"
        if present.panicked and not code:
            return 1, "Error", "the guest's kernel panicked"
        if present.crashed and not code:
            return 255, "Error", "QEMU ended unexpectedly"
        if present.shut_down or code == 0:
            return 0, "Completed", ""
        if code is None:
            return 255, "Error", "QEMU exited while no runtime was running"
        return code, "Error", f"QEMU exited unexpectedly with exit code {code}"

    # --- stop and removal
    async def stop(self, container: Container, grace_s: float) -> None:
        """Presses the power button, waits for the grace period, then ends QEMU."""
        if container.state != RUNNING:
            return
        if container.moved or (container.leaving and await self.departed(container)):
            await self.finish(container, 0)
            return
        present = self.presence(container)
        was = container.power
        self.mark(container, machines.RUNNING)
        state = await present.machine.state()
        if was in machines.OFF and (state is None or not state.running):
            present.shut_down = True
            await self.finish(container, 0)
            return
        if grace_s > 0 and not container.leaving:
            if state is not None and state.paused:
                with suppress(LibvirtFailed):
                    await present.machine.resume()
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self.shut_down(present)
        if container.state != RUNNING:
            return
        present.killed = True
        await present.machine.destroy()
        async with asyncio.timeout(30):
            await present.ended.wait()

    @staticmethod
    async def shut_down(present: LiveVm) -> None:
        """Presses the power button until QEMU has exited."""
        pauses = iter(_PRESS_AGAIN_S)
        while not present.off.is_set():
            with suppress(LibvirtFailed):
                await present.machine.press_power_button()
            with suppress(TimeoutError):
                async with asyncio.timeout(next(pauses, _PRESS_AGAIN_S[-1])):
                    await present.off.wait()

    async def remove(self, container: Container) -> None:
        await self.stop(container, 0)
        if container.arriving:
            await self.machine(container).destroy()
        await self.machine(container).undefine()
        await self.clear(container)
        self._present.pop(container.id, None)
        self._by_uuid.pop(container.uuid, None)
        self.post(container, notices.DELETED)

    def post(self, container: Container, kind: int) -> None:
        self._posts.post(Notice(container.id, container.sandbox_id, kind, time.time_ns()))

    async def close(self) -> None:
        for present in self._present.values():
            await present.console.close()


async def _never(_container: Container) -> bool:
    return False
