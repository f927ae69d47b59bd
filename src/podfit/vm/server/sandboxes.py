"""CRI's calls for pod sandboxes. A VM pod's sandbox is its cgroup and its network; no process runs for it."""

from __future__ import annotations

import secrets
import time
from typing import Any

from podfit.cri import api_pb2 as cri
from podfit.vm.records import Sandbox
from podfit.vm.runtime import Runtime
from podfit.vm.server.answers import (
    answered,
    listed_sandbox,
    sandbox_matches,
    sandbox_status,
)


class Sandboxes:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @answered
    async def RunPodSandbox(self, request: cri.RunPodSandboxRequest, _context: Any) -> cri.RunPodSandboxResponse:
        async with self._runtime.networks.turn(request.config.metadata.uid):
            return cri.RunPodSandboxResponse(pod_sandbox_id=await self._run(request))

    async def _run(self, request: cri.RunPodSandboxRequest) -> str:
        runtime, metadata = self._runtime, request.config.metadata
        for known in runtime.records.sandboxes.values():
            # A caller that got no response retries: the same attempt of the same pod is the same sandbox.
            if known.ready and known.config.metadata == metadata:
                return known.id
        sandbox = Sandbox(secrets.token_hex(32), request.config, request.runtime_handler, time.time_ns())
        # The record is written last: networks of pods without a record are removed at the next start.
        if request.config.linux.security_context.namespace_options.network != cri.NamespaceMode.NODE:
            await runtime.networks.connect(sandbox)
        runtime.records.save_sandbox(sandbox)
        return sandbox.id

    @answered
    async def StopPodSandbox(self, request: cri.StopPodSandboxRequest, _context: Any) -> cri.StopPodSandboxResponse:
        sandbox = self._runtime.records.sandboxes.get(request.pod_sandbox_id)
        if sandbox is not None and sandbox.ready:
            for container in self._runtime.containers_of(sandbox.id):
                await self._runtime.lives.stop(container, 0)
            await self._runtime.networks.disconnect(sandbox)
            sandbox.ready = False
            self._runtime.records.save_sandbox(sandbox)
        return cri.StopPodSandboxResponse()

    @answered
    async def RemovePodSandbox(
        self, request: cri.RemovePodSandboxRequest, context: Any
    ) -> cri.RemovePodSandboxResponse:
        sandbox = self._runtime.records.sandboxes.get(request.pod_sandbox_id)
        if sandbox is not None:
            await self.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox.id), context)
            for container in self._runtime.containers_of(sandbox.id):
                await self._runtime.remove(container)
            self._runtime.records.drop(sandbox.id)
        return cri.RemovePodSandboxResponse()

    @answered
    async def PodSandboxStatus(
        self, request: cri.PodSandboxStatusRequest, _context: Any
    ) -> cri.PodSandboxStatusResponse:
        sandbox = self._runtime.sandbox(request.pod_sandbox_id)
        statuses = [await self._runtime.status(container) for container in self._runtime.containers_of(sandbox.id)]
        return cri.PodSandboxStatusResponse(
            status=sandbox_status(sandbox), containers_statuses=statuses, timestamp=time.time_ns()
        )

    @answered
    async def ListPodSandbox(self, request: cri.ListPodSandboxRequest, _context: Any) -> cri.ListPodSandboxResponse:
        found = self._runtime.records.sandboxes.values()
        items = [listed_sandbox(sandbox) for sandbox in found if sandbox_matches(sandbox, request.filter)]
        return cri.ListPodSandboxResponse(items=items)

    @answered
    async def UpdatePodSandboxResources(
        self, request: cri.UpdatePodSandboxResourcesRequest, _context: Any
    ) -> cri.UpdatePodSandboxResourcesResponse:
        """The pod's cgroup belongs to the caller; the sandbox only records the values."""
        sandbox = self._runtime.sandbox(request.pod_sandbox_id)
        sandbox.config.linux.resources.CopyFrom(request.resources)
        sandbox.config.linux.overhead.CopyFrom(request.overhead)
        self._runtime.records.save_sandbox(sandbox)
        return cri.UpdatePodSandboxResourcesResponse()
