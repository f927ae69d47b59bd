"""CRI's calls about the runtime itself: version, readiness, configuration, events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from podfit import __version__
from podfit.cri import api_pb2 as cri
from podfit.vm import notices
from podfit.vm.runtime import Runtime
from podfit.vm.server.answers import answered, sandbox_status

NAME = "podfit-vm"
HANDLERS = ("", "vm")


class Info:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @answered
    async def Version(self, _request: cri.VersionRequest, _context: Any) -> cri.VersionResponse:
        return cri.VersionResponse(
            version="0.1.0", runtime_name=NAME, runtime_version=__version__, runtime_api_version="v1"
        )

    @answered
    async def Status(self, request: cri.StatusRequest, _context: Any) -> cri.StatusResponse:
        alive = await self._runtime.hypervisor.alive()
        conditions = [
            cri.RuntimeCondition(
                type="RuntimeReady",
                status=alive,
                reason="" if alive else "LibvirtGone",
                message="" if alive else "libvirt does not answer",
            ),
            cri.RuntimeCondition(type="NetworkReady", status=True),
        ]
        info = {}
        if request.verbose and alive:
            libvirt, qemu = await self._runtime.hypervisor.version()
            info = {"libvirt": _dotted(libvirt), "qemu": _dotted(qemu), "folder": str(self._runtime.folder)}
        return cri.StatusResponse(
            status=cri.RuntimeStatus(conditions=conditions),
            info=info,
            runtime_handlers=[cri.RuntimeHandler(name=name) for name in HANDLERS],
        )

    @answered
    async def RuntimeConfig(self, _request: cri.RuntimeConfigRequest, _context: Any) -> cri.RuntimeConfigResponse:
        return cri.RuntimeConfigResponse(linux=cri.LinuxRuntimeConfiguration(cgroup_driver=cri.CgroupDriver.CGROUPFS))

    @answered
    async def UpdateRuntimeConfig(
        self, _request: cri.UpdateRuntimeConfigRequest, _context: Any
    ) -> cri.UpdateRuntimeConfigResponse:
        """Ignores the range of pod addresses: VMs keep the network with which this runtime was started."""
        return cri.UpdateRuntimeConfigResponse()

    async def GetContainerEvents(
        self, _request: cri.GetEventsRequest, _context: Any
    ) -> AsyncIterator[cri.ContainerEventResponse]:
        async for notice in self._runtime.notices.follow():
            yield await self._event(notice)

    async def _event(self, notice: notices.Notice) -> cri.ContainerEventResponse:
        sandbox = self._runtime.records.sandboxes.get(notice.sandbox_id)
        statuses = [
            await self._runtime.status(container) for container in self._runtime.containers_of(notice.sandbox_id)
        ]
        return cri.ContainerEventResponse(
            container_id=notice.container_id,
            container_event_type=cri.ContainerEventType.Name(notice.kind),
            created_at=notice.at_ns,
            pod_sandbox_status=sandbox_status(sandbox) if sandbox is not None else None,
            containers_statuses=statuses,
        )


def _dotted(version: int) -> str:
    return f"{version // 1_000_000}.{version // 1000 % 1000}.{version % 1000}"
