"""CRI's usage calls: the guest's memory usage, and QEMU's usage of the machine.

The working set is the memory that the guest itself needs, from its balloon statistics: a limit on the VM must cover it.
It includes the guest kernel's own memory, which the guest does not count. Usage and RSS are those of QEMU's cgroup,
including the guest's page cache and overhead.
"""

from __future__ import annotations

import time
from typing import Any

from podfit.cri import api_pb2 as cri
from podfit.vm.decide.sizes import MIB
from podfit.vm.machines.hypervisor import LibvirtFailed
from podfit.vm.records import RUNNING, Container, Sandbox
from podfit.vm.runtime import Runtime
from podfit.vm.server.answers import answered, has_labels


def _number(value: int) -> cri.UInt64Value:
    return cri.UInt64Value(value=value)


class Stats:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def _of(self, container: Container) -> cri.ContainerStats:
        now, used = time.time_ns(), self._runtime.cgroups.usage(container.group)
        guest = await self._guest(container)
        total, usable = guest.get("actual", guest.get("available", 0)) << 10, guest.get("usable")
        working = total - (usable << 10) if usable is not None else used.memory_bytes
        memory = cri.MemoryUsage(
            timestamp=now,
            working_set_bytes=_number(max(0, working)),
            usage_bytes=_number(used.memory_bytes),
            rss_bytes=_number(used.rss_bytes),
            page_faults=_number(guest.get("minor_fault", 0)),
            major_page_faults=_number(guest.get("major_fault", 0)),
        )
        if usable is not None:
            memory.available_bytes.value = usable << 10
        return cri.ContainerStats(
            attributes=cri.ContainerAttributes(
                id=container.id,
                metadata=container.config.metadata,
                labels=container.config.labels,
                annotations=container.config.annotations,
            ),
            cpu=cri.CpuUsage(timestamp=now, usage_core_nano_seconds=_number(used.cpu_nanos)),
            memory=memory,
            writable_layer=cri.FilesystemUsage(
                timestamp=now,
                fs_id=cri.FilesystemIdentifier(mountpoint=str(self._runtime.folder)),
                used_bytes=_number(self._runtime.lives.disk_bytes(container)),
            ),
        )

    async def _guest(self, container: Container) -> dict[str, int]:
        if container.leaving:
            return {}
        try:
            return await self._runtime.lives.machine(container).statistics()
        except LibvirtFailed:
            return {}

    @answered
    async def ContainerStats(self, request: cri.ContainerStatsRequest, _context: Any) -> cri.ContainerStatsResponse:
        return cri.ContainerStatsResponse(stats=await self._of(self._runtime.container(request.container_id)))

    @answered
    async def ListContainerStats(
        self, request: cri.ListContainerStatsRequest, _context: Any
    ) -> cri.ListContainerStatsResponse:
        wanted = request.filter
        found = [
            container
            for container in self._runtime.records.containers.values()
            if container.state == RUNNING
            and container.id.startswith(wanted.id)
            and container.sandbox_id.startswith(wanted.pod_sandbox_id)
            and has_labels(container.config.labels, wanted.label_selector)
        ]
        return cri.ListContainerStatsResponse(stats=[await self._of(container) for container in found])

    async def _of_pod(self, sandbox: Sandbox) -> cri.PodSandboxStats:
        running = [container for container in self._runtime.containers_of(sandbox.id) if container.state == RUNNING]
        stats = [await self._of(container) for container in running]
        linux = cri.LinuxPodSandboxStats(containers=stats)
        if stats:
            linux.cpu.CopyFrom(stats[0].cpu)
            linux.memory.CopyFrom(stats[0].memory)
            overhead = sum(container.overhead_mib for container in running) * MIB
            linux.memory.working_set_bytes.value += overhead
        config = sandbox.config
        return cri.PodSandboxStats(
            attributes=cri.PodSandboxAttributes(
                id=sandbox.id, metadata=config.metadata, labels=config.labels, annotations=config.annotations
            ),
            linux=linux,
        )

    @answered
    async def PodSandboxStats(self, request: cri.PodSandboxStatsRequest, _context: Any) -> cri.PodSandboxStatsResponse:
        return cri.PodSandboxStatsResponse(stats=await self._of_pod(self._runtime.sandbox(request.pod_sandbox_id)))

    @answered
    async def ListPodSandboxStats(
        self, request: cri.ListPodSandboxStatsRequest, _context: Any
    ) -> cri.ListPodSandboxStatsResponse:
        wanted = request.filter
        found = [
            sandbox
            for sandbox in self._runtime.records.sandboxes.values()
            if sandbox.id.startswith(wanted.id) and has_labels(sandbox.config.labels, wanted.label_selector)
        ]
        return cri.ListPodSandboxStatsResponse(stats=[await self._of_pod(sandbox) for sandbox in found])
