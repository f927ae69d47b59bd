"""Maintains the records of a runtime's pods and containers, and turns their changes into events.

Three sources: the agent's own calls, the kernel (a pidfd reports an exit at once), and the runtime (see `following`).
Records are never dropped because the runtime does not answer: only a list without them removes them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from podfit.agent.runtimes.cgroups import Cgroups
from podfit.agent.runtimes.cri.failures import failure
from podfit.agent.runtimes.cri.messages.cgroup_paths import CgroupPaths
from podfit.agent.runtimes.cri.messages.configs import UID, PersistedConfig
from podfit.agent.runtimes.cri.state.comparison import Comparison
from podfit.agent.runtimes.cri.state.exits import Exits
from podfit.agent.runtimes.cri.state.following import Following
from podfit.agent.runtimes.cri.state.records import Container, Pod, container_state, group_of, process_id
from podfit.agent.runtimes.values import EXITED, RUNNING, ContainerState, NotFound, RuntimeEvent
from podfit.cri import CriClient, CriError
from podfit.cri import api_pb2 as api
from podfit.kit.concurrency.tasks import Tasks

log = logging.getLogger(__name__)

_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.5
_END_S = 10.0


class Inventory:
    def __init__(self, client: CriClient, node: str, places: CgroupPaths, cgroups: Cgroups | None) -> None:
        """`cgroups`: None if this machine cannot read the containers' cgroups."""
        self.client, self.node, self.places, self.cgroups = client, node, places, cgroups
        self.pods: dict[str, Pod] = {}
        self.containers: dict[str, Container] = {}
        self.tasks = Tasks("cri")
        self._queue: asyncio.Queue[RuntimeEvent] = asyncio.Queue()
        self.exits = Exits()
        self._ended: dict[str, asyncio.Future[None]] = {}
        self.relist_now = asyncio.Event()
        self._reading: set[str] = set()
        """Containers whose exit is being read."""
        self.removed: dict[str, float] = {}
        """Ids of removed objects, and when: an older response may still contain them."""

    async def open(self) -> None:
        try:
            await self.relist()
        except CriError as error:
            raise failure(error) from error
        while not self._queue.empty():
            self._queue.get_nowait()
        for name, work in Following(self).loops().items():
            self.tasks.start(work, name)

    async def close(self) -> None:
        await self.tasks.stop()
        self.exits.close()

    async def events(self) -> AsyncIterator[RuntimeEvent]:
        while True:
            yield await self._queue.get()

    def emit(self, kind: str, uid: str, container_id: str = "") -> None:
        self._queue.put_nowait(RuntimeEvent(kind, uid, container_id))

    # --- lookups
    def pod(self, uid: str) -> Pod:
        pod = self.pods.get(uid)
        if pod is None:
            raise NotFound(f"pod {uid} not found")
        return pod

    def container(self, container_id: str) -> Container:
        found = self.containers.get(container_id)
        if found is None:
            raise NotFound(f"container {container_id} not found")
        return found

    async def until_ended(self, container_id: str) -> None:
        known = self.containers.get(container_id)
        if known is not None and known.state.state != EXITED:
            end = self._ended.setdefault(container_id, asyncio.get_running_loop().create_future())
            await asyncio.shield(end)

    # --- changing records
    def add_pod(self, pod: Pod) -> None:
        pod.touched = time.monotonic()
        self.pods[pod.config.uid] = pod

    def drop_pod(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        if pod is not None:
            for sandbox_id in pod.sandboxes:
                self.exits.forget(sandbox_id)
                self.removed[sandbox_id] = time.monotonic()
            for container_id in list(pod.containers):
                self.drop_container(container_id)

    def drop_container(self, container_id: str) -> None:
        self.exits.forget(container_id)
        self.removed[container_id] = time.monotonic()
        known = self.containers.pop(container_id, None)
        if known is not None and known.pod_uid in self.pods:
            self.pods[known.pod_uid].containers.pop(container_id, None)
        self._settle(container_id)

    async def refresh(self, container_id: str) -> Container | None:
        """Reads one container from the runtime; None if it is gone there, or not ours."""
        request = api.ContainerStatusRequest(container_id=container_id, verbose=True)
        try:
            answer = await self.client.ask("ContainerStatus", request)
        except CriError as error:
            if error.code != "NOT_FOUND":
                raise
            self.drop_container(container_id)
            return None
        found = container_state(answer.status, answer.info.get("info", "{}"))
        pod = self.pods.get(answer.status.labels.get(UID, ""))
        if found is None or pod is None or container_id in self.removed:
            return None
        noted = self._note(pod, *found)
        noted.pinned = noted.pinned or bool(answer.status.resources.linux.cpuset_cpus)
        return noted

    def _note(self, pod: Pod, state: ContainerState, kept: PersistedConfig) -> Container:
        known = self.containers.get(state.id)
        if known is None:
            known = Container(state, pod.config.uid, kept, pinned=bool(kept.limits.cpuset_cpus))
            self.containers[state.id] = pod.containers[state.id] = known
            before = ""
        else:
            before = known.state.state
            if before == EXITED:
                return known
            if known.state.machine != state.machine:
                self.emit("changed", pod.config.uid, state.id)
            known.state = state
        known.touched = time.monotonic()
        if state.state == RUNNING:
            if not known.group and self.cgroups is not None:
                group = group_of(state.pid, "memory" if self.cgroups.version == 1 else "")
                # Only a cgroup below the pod's counts: a virtual machine may be a process in another program's cgroup.
                known.group = group if group.startswith(f"{pod.group}/") else ""
                if known.group and kept.limits.cpu_shares is not None:
                    self.cgroups.note_shares(known.group, kept.limits.cpu_shares)
            self.exits.follow(state.id, state.pid, self._exited)
            if not self.exits.followed(state.id):
                self.relist_soon()
        if state.state == RUNNING and before != RUNNING:
            self.emit("started", pod.config.uid, state.id)
        if state.state == EXITED:
            self.exits.forget(state.id)
            self._settle(state.id)
            self.emit("exited", pod.config.uid, state.id)
        return known

    def pod_lost(self, pod: Pod) -> None:
        """Called when another program removed the pod's cgroup: the pod has to be stopped and recreated."""
        if pod.alive and self.cgroups is not None and not self.cgroups.exists(pod.group):
            pod.alive = False
            self.emit("pod-gone", pod.config.uid)

    def _settle(self, container_id: str) -> None:
        end = self._ended.pop(container_id, None)
        if end is not None and not end.done():
            end.set_result(None)

    # --- reported by the kernel
    def _exited(self, container_id: str) -> None:
        # The runtime may still report it as running, and the process can no longer be followed: one request is enough.
        if container_id not in self._reading:
            self._reading.add(container_id)
            self.tasks.start(self._read_exit(container_id), f"cri-exit-{container_id}")

    async def _read_exit(self, container_id: str) -> None:
        try:
            await self.read_end(container_id)
        finally:
            self._reading.discard(container_id)

    async def read_end(self, container_id: str) -> None:
        """Reads how a container exited: its process is gone, and the runtime knows the exit code a moment later."""

        async def ended() -> bool:
            known = await self.refresh(container_id)
            return known is None or known.state.state == EXITED

        await self._until(ended, f"the end of container {container_id}")

    async def _read_sandbox_end(self, pod: Pod) -> None:
        async def ended() -> bool:
            await self.read_sandbox(pod)
            return not pod.alive

        await self._until(ended, f"the end of sandbox {pod.sandbox_id}")
        if not pod.alive and not pod.ending and self.pods.get(pod.config.uid) is pod:
            self.emit("pod-gone", pod.config.uid)

    @staticmethod
    async def _until(true: Callable[[], Awaitable[bool]], what: str) -> None:
        """Queries the runtime until it agrees with the kernel. If the runtime keeps reporting that nothing exited, the
        process was not on this machine: lists will find its exit."""
        pause, deadline = _SHORTEST_PAUSE_S, time.monotonic() + _END_S
        while time.monotonic() < deadline:
            try:
                if await true():
                    return
            except CriError as error:
                if error.code == "NOT_FOUND":
                    return
                log.info("%s cannot be read yet: %s", what, error)
                pause, deadline = _LONGEST_PAUSE_S, time.monotonic() + _END_S
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def follow_sandbox(self, pod: Pod) -> None:
        """Reads a new sandbox, and follows the process that holds its namespaces."""

        def ended(_: str) -> None:
            self.tasks.start(self._read_sandbox_end(pod), f"cri-exit-{pod.sandbox_id}")

        pid = await self.read_sandbox(pod)
        if pod.alive:
            self.exits.follow(pod.sandbox_id, pid, ended)

    # --- reported by the runtime
    def relist_soon(self) -> None:
        self.relist_now.set()

    async def relist(self) -> None:
        await Comparison(self).run()

    async def read_sandbox(self, pod: Pod) -> int:
        """Reads a sandbox: its addresses, and whether it is ready. Returns the ID of its process."""
        request = api.PodSandboxStatusRequest(pod_sandbox_id=pod.sandbox_id, verbose=True)
        answer = await self.client.ask("PodSandboxStatus", request)
        network = answer.status.network
        pod.ips = tuple(ip for ip in (network.ip, *(more.ip for more in network.additional_ips)) if ip)
        pod.alive = answer.status.state == api.SANDBOX_READY
        return process_id(answer.info.get("info", "{}"))
