"""Pods as sandboxes of the runtime: created, stopped and removed, each with the pod's cgroup around it."""

from __future__ import annotations

import asyncio
import logging
import time

from msgspec import structs

from podfit.agent.runtimes.cgroups.files import remove_everywhere
from podfit.agent.runtimes.cri.failures import failure
from podfit.agent.runtimes.cri.messages import configs
from podfit.agent.runtimes.cri.messages.subpaths import SubPaths
from podfit.agent.runtimes.cri.state.inventory import Inventory
from podfit.agent.runtimes.cri.state.records import Pod
from podfit.agent.runtimes.values import RUNNING, PodConfig, RuntimeFailure
from podfit.cri import CriError
from podfit.cri import api_pb2 as api

log = logging.getLogger(__name__)

REMOVE_TRIES = 200
_BUSY_PAUSES_S = (0.1, 0.5, 2.0)
REMOVED_AT_ONCE = 8
GONE = "NOT_FOUND"


class CriSandboxes:
    def __init__(self, inventory: Inventory, subpaths: SubPaths) -> None:
        self._inventory, self._subpaths = inventory, subpaths

    async def run(self, config: PodConfig) -> None:
        inventory, known = self._inventory, self._inventory.pods.get(config.uid)
        if known is not None and known.alive:
            return
        group = inventory.places.pod(config.qos, config.uid)
        attempt = known.attempt + 1 if known is not None else 0
        config.log_folder.mkdir(parents=True, exist_ok=True)
        if inventory.cgroups is not None:
            # The quota is not set yet: it would slow down the sandbox's own start.
            inventory.cgroups.create(group, structs.replace(config.limits, cpu_quota_us=None))
        request = api.RunPodSandboxRequest(
            config=configs.sandbox(config, inventory.node, attempt, group), runtime_handler=config.handler
        )
        try:
            answer = await inventory.client.ask("RunPodSandbox", request)
            pod = Pod(config, answer.pod_sandbox_id, attempt, time.time(), group)
            if known is not None:
                pod.sandboxes, pod.containers = known.sandboxes, known.containers
            pod.sandboxes.append(pod.sandbox_id)
            inventory.add_pod(pod)
            if inventory.cgroups is not None:
                # Also restores values that systemd, with its driver, has replaced by its defaults: the slice is a
                # systemd unit now.
                inventory.cgroups.create(group, config.limits)
            await inventory.follow_sandbox(pod)
        except CriError as error:
            # The sandbox may exist although the response was lost: it is looked up in a list.
            inventory.relist_soon()
            if inventory.cgroups is not None and config.uid not in inventory.pods:
                remove_everywhere(group)
            raise failure(error) from error

    async def stop(self, uid: str) -> None:
        pod = self._inventory.pods.get(uid)
        if pod is None or (pod.ending and not pod.alive):
            return
        pod.ending = True
        await self._ask("StopPodSandbox", api.StopPodSandboxRequest(pod_sandbox_id=pod.sandbox_id))
        pod.alive = False
        for cid in [cid for cid, known in pod.containers.items() if known.state.state == RUNNING]:
            await self._inventory.read_end(cid)

    async def remove(self, uid: str) -> None:
        pod = self._inventory.pods.get(uid)
        if pod is None:
            return
        await self.stop(uid)
        for sandbox_id in pod.sandboxes:
            await self._ask("RemovePodSandbox", api.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id))
        if self._inventory.cgroups is not None:
            await self.remove_group(pod.group)
        self._subpaths.remove(uid)
        self._inventory.drop_pod(uid)

    async def remove_all(self) -> None:
        """Removes all sandboxes, including those that this agent does not know yet."""
        try:
            await self._inventory.relist()
        except CriError as error:
            raise failure(error) from error
        turns = asyncio.Semaphore(REMOVED_AT_ONCE)

        async def remove(uid: str) -> None:
            async with turns:
                # A call that the agent abandoned when it stopped may still be in progress in the runtime, which then
                # refuses.
                for pause in _BUSY_PAUSES_S:
                    try:
                        await self.remove(uid)
                    except RuntimeFailure as error:
                        log.info("pod %s cannot be removed yet: %s", uid, error)
                        await asyncio.sleep(pause)
                    else:
                        return
                await self.remove(uid)

        await asyncio.gather(*(remove(uid) for uid in list(self._inventory.pods)))

    async def _ask(self, method: str, request: api.StopPodSandboxRequest | api.RemovePodSandboxRequest) -> None:
        """Sends a stop or remove call; a missing sandbox counts as removed."""
        try:
            await self._inventory.client.ask(method, request)
        except CriError as error:
            if error.code != GONE:
                raise failure(error) from error

    async def remove_group(self, group: str) -> None:
        """Removes the pod's group, which is busy until helpers of the runtime have exited."""
        for attempt in range(REMOVE_TRIES):
            if remove_everywhere(group):
                return
            await asyncio.sleep(min(0.001 * 2**attempt, 0.05))
        raise RuntimeFailure(f"cgroup {group} cannot be removed: a process in it does not end")
