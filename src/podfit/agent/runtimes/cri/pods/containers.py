"""Containers of the runtime: created in a pod's sandbox, started, stopped and removed."""

from __future__ import annotations

import asyncio
import math
import os
import re
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from podfit.agent.runtimes.cri.failures import failure
from podfit.agent.runtimes.cri.images import Images
from podfit.agent.runtimes.cri.messages import configs
from podfit.agent.runtimes.cri.messages.subpaths import SubPaths
from podfit.agent.runtimes.cri.pods.sandboxes import GONE
from podfit.agent.runtimes.cri.resize.starting import without_pod_quota
from podfit.agent.runtimes.cri.state.inventory import Inventory
from podfit.agent.runtimes.cri.state.records import Container, Pod
from podfit.agent.runtimes.signals import stop_signal
from podfit.agent.runtimes.values import EXITED, RUNNING, CannotRun, ContainerConfig, RuntimeFailure, no_machine
from podfit.api.pods.machines import POWER, POWER_GRACE
from podfit.api.quantity import BINARY_SI, Quantity
from podfit.cri import CriError
from podfit.cri import api_pb2 as api

_UPPER = re.compile(r"[ ,]upperdir=([^, ]+)")
STOP_S = 120.0
"""The time that a runtime may take to kill a container, in addition to the grace period."""


class CriContainers:
    def __init__(self, inventory: Inventory, subpaths: SubPaths) -> None:
        self._inventory, self._subpaths = inventory, subpaths

    async def create(self, uid: str, config: ContainerConfig) -> str:
        inventory, pod = self._inventory, self._inventory.pod(uid)
        _check_lasts(pod, "CreateContainerError")
        config.log_file.parent.mkdir(parents=True, exist_ok=True)
        config = await self._with_user(config)
        mounts = self._subpaths.resolve(uid, config.name, config.attempt, config.mounts)
        request = api.CreateContainerRequest(
            pod_sandbox_id=pod.sandbox_id,
            config=configs.container(config, pod.config, inventory.node, mounts, _target(pod, config.target)),
            sandbox_config=configs.sandbox(pod.config, inventory.node, pod.attempt, pod.group),
        )
        if inventory.cgroups is not None:
            request.config.linux.resources.unified.update(inventory.cgroups.container_files(pod.group))
        kills = self._kills(pod)
        try:
            answer = await inventory.client.ask("CreateContainer", request)
            made = await inventory.refresh(answer.container_id)
        except CriError as error:
            # The container may exist although the response was lost: it is looked up in a list.
            inventory.relist_soon()
            raise CannotRun(self._why(error, pod, kills), "CreateContainerError") from error
        if made is None:
            raise CannotRun(f"container {answer.container_id} is gone", "CreateContainerError")
        return made.state.id

    async def _with_user(self, config: ContainerConfig) -> ContainerConfig:
        """Adds a user, because CRI does not accept a group without one: the image's user if that is a number, else
        root."""
        security = config.security
        if security.gid is None or security.uid is not None:
            return config
        image = await Images(self._inventory.client).status(config.image_id or config.image)
        user = image.user.partition(":")[0] if image is not None else ""
        return replace(config, security=replace(security, uid=int(user) if user.isdecimal() else 0))

    async def start(self, container_id: str) -> None:
        inventory, known = self._inventory, self._inventory.container(container_id)
        if known.state.state == RUNNING:
            return
        if known.state.state == EXITED:
            raise CannotRun(f"container {container_id} has ended", "RunContainerError")
        pod = inventory.pods.get(known.pod_uid)
        kills = self._kills(pod)
        try:
            async with without_pod_quota(inventory, pod, known):
                await inventory.client.ask("StartContainer", api.StartContainerRequest(container_id=container_id))
            await inventory.refresh(container_id)
        except CriError as error:
            with suppress(CriError):
                await inventory.refresh(container_id)
            raise CannotRun(self._why(error, pod, kills), "RunContainerError") from error
        pod = inventory.pods.get(known.pod_uid)
        if pod is None or pod.ending:
            await self._stop(container_id, 0)  # the container did not exist yet when all others were stopped
            raise CannotRun(f"pod {known.pod_uid} is stopped", "RunContainerError")

    # --- helpers of the runtime that run inside the pod's cgroup, such as CRI-O's
    def _kills(self, pod: Pod | None) -> int:
        if self._inventory.cgroups is None or pod is None:
            return 0
        try:
            return self._inventory.cgroups.usage(pod.group).oom_kills
        except (RuntimeFailure, OSError):
            return 0

    def _why(self, error: CriError, pod: Pod | None, kills: int) -> str:
        """The cause of a failed start. The runtime does not report, and may not know, that the pod's limit was too
        small for the runtime's own processes."""
        if pod is None or self._kills(pod) <= kills:
            return error.details
        size = self._inventory.cgroups.limits(pod.group).memory_bytes if self._inventory.cgroups is not None else None
        limit = f"memory limit of {Quantity.of_units(size, BINARY_SI)}" if size is not None else "memory"
        return (
            f"{error.details}: the kernel killed a process of the container runtime in the pod's cgroup, because the "
            f"pod's {limit} was used up"
        )

    async def stop(self, container_id: str, grace_s: float) -> None:
        known = self._inventory.containers.get(container_id)
        if known is not None and known.state.state == RUNNING:
            await self._stop(container_id, grace_s)

    async def _signal(self, known: Container, grace_s: float) -> None:
        """Sends the stop signal of the pod's spec and waits for the exit: containerd before 2.2 only knows the image's
        signal."""
        try:
            process = os.pidfd_open(known.state.pid)
        except OSError:
            return
        try:
            signal.pidfd_send_signal(process, stop_signal(known.kept.stop_signal))
            async with asyncio.timeout(grace_s):
                await self._inventory.until_ended(known.state.id)
        except (OSError, TimeoutError):
            return
        finally:
            os.close(process)

    async def _stop(self, container_id: str, grace_s: float) -> None:
        known = self._inventory.containers.get(container_id)
        if known is not None and known.kept.stop_signal and known.state.pid and grace_s > 0:
            await self._signal(known, grace_s)
            grace_s = 0.0
        seconds = math.ceil(grace_s)
        request = api.StopContainerRequest(container_id=container_id, timeout=seconds)
        try:
            await self._inventory.client.ask("StopContainer", request, seconds + STOP_S)
        except CriError as error:
            if error.code != GONE:
                raise failure(error) from error
        await self._inventory.read_end(container_id)

    async def set_power(self, container_id: str, power: str, grace_s: float) -> None:
        if self._inventory.container(container_id).state.machine is None:
            raise no_machine(container_id)
        annotations = {POWER: power, POWER_GRACE: str(math.ceil(grace_s))}
        request = api.UpdateContainerResourcesRequest(container_id=container_id, annotations=annotations)
        try:
            await self._inventory.client.ask("UpdateContainerResources", request, grace_s + STOP_S)
            await self._inventory.refresh(container_id)
        except CriError as error:
            raise failure(error) from error

    async def remove(self, container_id: str) -> None:
        if container_id not in self._inventory.containers:
            return
        await self.stop(container_id, 0)
        try:
            await self._inventory.client.ask("RemoveContainer", api.RemoveContainerRequest(container_id=container_id))
        except CriError as error:
            if error.code != GONE:
                raise failure(error) from error
        self._inventory.drop_container(container_id)

    def writable_layer(self, container_id: str) -> Path | None:
        """The upper folder of an overlay, from the container's mounts."""
        known = self._inventory.containers.get(container_id)
        if known is None or not known.state.pid:
            return None
        try:
            rows = Path(f"/proc/{known.state.pid}/mountinfo").read_text().splitlines()
        except OSError:
            return None
        root = next((row for row in rows if row.split()[4] == "/"), "")
        found = _UPPER.search(root)
        return Path(found[1]) if found is not None else None


def _check_lasts(pod: Pod, reason: str) -> None:
    if pod.ending or not pod.alive:
        raise CannotRun(f"pod {pod.config.uid} is stopped", reason)


def _target(pod: Pod, name: str) -> str:
    for known in pod.containers.values():
        if name and known.state.name == name and known.state.state == RUNNING:
            return known.state.id
    return ""
