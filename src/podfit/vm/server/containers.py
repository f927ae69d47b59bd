"""CRI's container calls; each container is a VM."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Mapping
from typing import Any

from podfit.api.pods import machines
from podfit.cri import api_pb2 as cri
from podfit.vm.decide.layout import Layout, layout_of
from podfit.vm.decide.refusals import GuestBusy, Invalid
from podfit.vm.decide.sizes import MIB, Limits, size_of
from podfit.vm.guest.shares import shares_of
from podfit.vm.records import CREATED, EXITED, Container, Sandbox
from podfit.vm.runtime import Runtime
from podfit.vm.server.answers import (
    WrongState,
    answered,
    container_matches,
    limits_from,
    listed_container,
)

_NOTHING = Limits()
_GRACE_S = 30.0
OVERHEAD_MIB = 160
"""QEMU's memory besides the guest's, if the pod's RuntimeClass does not specify it."""


class Containers:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @answered
    async def CreateContainer(self, request: cri.CreateContainerRequest, _context: Any) -> cri.CreateContainerResponse:
        sandbox = self._runtime.sandbox(request.pod_sandbox_id)
        if not sandbox.ready:
            raise WrongState(f"the sandbox {sandbox.id} is not ready")
        for other in self._runtime.containers_of(sandbox.id):
            if other.config.metadata == request.config.metadata and other.state == CREATED:
                return cri.CreateContainerResponse(container_id=other.id)
            if other.state != EXITED:
                raise WrongState(
                    f"a VM pod has one container at a time, and {other.config.metadata.name} has not ended"
                )
        container = self._record(sandbox, request.config)
        try:
            await self._runtime.lives.create(sandbox, container)
        except BaseException:
            self._runtime.images.release(container.image, container.id)
            raise
        return cri.CreateContainerResponse(container_id=container.id)

    def _record(self, sandbox: Sandbox, config: cri.ContainerConfig) -> Container:
        limits = limits_from(config.linux.resources)
        layout = _layout(sandbox, config, limits)
        id = secrets.token_hex(32)
        parent = sandbox.config.linux.cgroup_parent or "/podfit-vm"
        overhead = sandbox.config.linux.overhead.memory_limit_in_bytes // MIB or OVERHEAD_MIB
        return Container(
            id=id,
            sandbox_id=sandbox.id,
            config=config,
            uuid=str(uuid.UUID(id[:32])),
            group=f"{parent}/{id}",
            image=self._runtime.images.take(config.image, sandbox.config.annotations, id),
            layout=layout,
            limits=limits,
            created_ns=time.time_ns(),
            overhead_mib=overhead,
        )

    @answered
    async def StartContainer(self, request: cri.StartContainerRequest, _context: Any) -> cri.StartContainerResponse:
        container = self._runtime.container(request.container_id)
        if container.state != CREATED:
            raise WrongState(f"the container {container.id} is {container.state}, not created")
        await self._runtime.lives.start(container)
        return cri.StartContainerResponse()

    @answered
    async def StopContainer(self, request: cri.StopContainerRequest, _context: Any) -> cri.StopContainerResponse:
        container = self._runtime.records.containers.get(request.container_id)
        if container is not None:
            await self._runtime.lives.stop(container, float(request.timeout))
        return cri.StopContainerResponse()

    @answered
    async def RemoveContainer(self, request: cri.RemoveContainerRequest, _context: Any) -> cri.RemoveContainerResponse:
        container = self._runtime.records.containers.get(request.container_id)
        if container is not None:
            await self._runtime.remove(container)
        return cri.RemoveContainerResponse()

    @answered
    async def ListContainers(self, request: cri.ListContainersRequest, _context: Any) -> cri.ListContainersResponse:
        found = self._runtime.records.containers.values()
        items = [listed_container(container) for container in found if container_matches(container, request.filter)]
        return cri.ListContainersResponse(containers=items)

    @answered
    async def ContainerStatus(self, request: cri.ContainerStatusRequest, _context: Any) -> cri.ContainerStatusResponse:
        container = self._runtime.container(request.container_id)
        status = await self._runtime.status(container)
        info = await self._runtime.info(container) if request.verbose else {}
        return cri.ContainerStatusResponse(status=status, info=info)

    @answered
    async def UpdateContainerResources(
        self, request: cri.UpdateContainerResourcesRequest, _context: Any
    ) -> cri.UpdateContainerResourcesResponse:
        container = self._runtime.container(request.container_id)
        if container.state == EXITED:
            raise WrongState(f"the container {container.id} has ended")
        limits = limits_from(request.linux)
        if limits != _NOTHING:
            await self._resize(container, limits)
        if machines.POWER in request.annotations:
            grace_s = _grace_s(request.annotations)
            await self._runtime.power.set(container, request.annotations[machines.POWER], grace_s)
        return cri.UpdateContainerResourcesResponse()

    async def _resize(self, container: Container, newer: Limits) -> None:
        if container.state == CREATED:
            await self._redefine(container, newer)
            return
        power = await self._runtime.power.actual(container)
        if power == machines.SHUTDOWN:
            await self._redefine(container, newer)
        elif power == machines.RUNNING:
            await self._runtime.resizer.update(container, newer)
        else:
            raise GuestBusy(f"the VM is {power.lower()}: it can be resized when it runs again")

    async def _redefine(self, container: Container, newer: Limits) -> None:
        """Redefines a VM that is off, so that it starts with its new size."""
        sandbox = self._runtime.sandbox(container.sandbox_id)
        limits = container.limits.updated(newer)
        layout = _layout(sandbox, container.config, limits)
        container.limits, container.layout = limits, layout
        container.offline_vcpus, container.unused_mib, container.update = 0, 0, None
        await self._runtime.lives.define(sandbox, container)

    @answered
    async def ReopenContainerLog(
        self, request: cri.ReopenContainerLogRequest, _context: Any
    ) -> cri.ReopenContainerLogResponse:
        container = self._runtime.container(request.container_id)
        self._runtime.lives.presence(container).console.reopen()
        return cri.ReopenContainerLogResponse()


def _layout(sandbox: Sandbox, config: cri.ContainerConfig, limits: Limits) -> Layout:
    annotations = sandbox.config.annotations
    shares = shares_of(config.mounts, annotations.get(machines.TOKEN) == "true")
    return layout_of(size_of(limits), annotations, bool(shares))


def _grace_s(annotations: Mapping[str, str]) -> float:
    """The seconds that a guest may take to shut down."""
    text = annotations.get(machines.POWER_GRACE, "")
    if text and not text.isdecimal():
        raise Invalid(f"annotation {machines.POWER_GRACE}: {text!r} is not a number of seconds")
    return float(text) if text else _GRACE_S
