"""Compares the records with the runtime's list of this node's objects: new, exited and missing ones.

By the time a list arrives it is outdated: objects created, changed or removed since the request are left as they are.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from podfit.agent.runtimes.cri.messages.configs import NODE, kept_pod
from podfit.agent.runtimes.cri.state.records import Pod
from podfit.agent.runtimes.values import EXITED, RUNNING
from podfit.cri import api_pb2 as api

if TYPE_CHECKING:
    from podfit.agent.runtimes.cri.state.inventory import Inventory

_NANOS = 1_000_000_000
_REMEMBERED_S = 300.0


class Comparison:
    def __init__(self, inventory: Inventory) -> None:
        self._inventory, self._began = inventory, time.monotonic()

    async def run(self) -> None:
        inventory, began, ours = self._inventory, self._began, {NODE: self._inventory.node}
        boxes = await inventory.client.ask(
            "ListPodSandbox", api.ListPodSandboxRequest(filter=api.PodSandboxFilter(label_selector=ours))
        )
        listed = await inventory.client.ask(
            "ListContainers", api.ListContainersRequest(filter=api.ContainerFilter(label_selector=ours))
        )
        by_uid: dict[str, list[api.PodSandbox]] = {}
        for box in sorted(boxes.items, key=lambda box: (box.metadata.attempt, box.created_at)):
            if box.id in inventory.removed:
                continue
            by_uid.setdefault(box.metadata.uid, []).append(box)
        for uid, group in by_uid.items():
            await self._compare_pod(uid, group)
        for container in listed.containers:
            known = inventory.containers.get(container.id)
            state = known.state.state if known is not None else ""
            if state != EXITED and (known is None or _differs(state, container.state)):
                await inventory.refresh(container.id)
        alive = {container.id for container in listed.containers}
        for cid in [cid for cid, record in inventory.containers.items() if cid not in alive and record.touched < began]:
            inventory.drop_container(cid)
        for uid in [uid for uid, pod in inventory.pods.items() if uid not in by_uid and pod.touched < began]:
            inventory.drop_pod(uid)
            inventory.emit("pod-gone", uid)
        inventory.removed = {name: at for name, at in inventory.removed.items() if at > began - _REMEMBERED_S}

    async def _compare_pod(self, uid: str, boxes: list[api.PodSandbox]) -> None:
        inventory, newest = self._inventory, boxes[-1]
        pod = inventory.pods.get(uid)
        if pod is not None and pod.touched >= self._began:
            return
        ready = newest.state == api.SANDBOX_READY
        if pod is None or pod.sandbox_id != newest.id:
            config = kept_pod(newest.annotations)
            if config is None:
                return
            if pod is None:
                inventory.emit("found", uid)
            known = pod.containers if pod is not None else {}
            pod = Pod(
                config,
                newest.id,
                newest.metadata.attempt,
                newest.created_at / _NANOS,
                inventory.places.pod(config.qos, uid),
            )
            pod.containers, pod.alive = known, ready
            inventory.add_pod(pod)
            if ready:
                await inventory.follow_sandbox(pod)
        elif pod.alive and ready and not pod.ips and not pod.config.host_network:
            # The container was created, but its details could not be read then.
            await inventory.follow_sandbox(pod)
        pod.sandboxes = [box.id for box in boxes]
        if pod.alive and not ready:
            pod.alive = False
            inventory.emit("pod-gone", uid)


def _differs(state: str, listed: api.ContainerState) -> bool:
    return state != RUNNING if listed == api.CONTAINER_RUNNING else state == RUNNING or listed == api.CONTAINER_EXITED
