"""The process runtime: pods as cgroups, containers as child processes of the keeper.

This is the agent's side: it writes cgroups directly, and requests processes from the keeper. Their shared state is in
records on disk, so that a new agent finds the running pods.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from podfit.agent.runtimes.base import ByteStream
from podfit.agent.runtimes.cgroups import Cgroups, pod_group
from podfit.agent.runtimes.cgroups.watch import OomWatch
from podfit.agent.runtimes.confirmations import Confirmations
from podfit.agent.runtimes.execs import exec_sync
from podfit.agent.runtimes.process.link import KeeperFailed, Link
from podfit.agent.runtimes.process.records import Container, ContainerRecord, Pod, Records, StoredPod
from podfit.agent.runtimes.process.resources import ResourceCalls
from podfit.agent.runtimes.process.sessions import StreamCalls
from podfit.agent.runtimes.process.setup.images import HOST, Image, ImageCalls, NodeImages, runs_on_host
from podfit.agent.runtimes.process.setup.launchspec import confine_devices, launch_spec
from podfit.agent.runtimes.process.setup.networks import Networks
from podfit.agent.runtimes.process.support import require_support
from podfit.agent.runtimes.signals import stop_signal
from podfit.agent.runtimes.values import (
    CannotRun,
    ContainerConfig,
    ContainerState,
    Handler,
    Limits,
    LinuxUser,
    NotFound,
    PodConfig,
    PodState,
    RuntimeEvent,
    RuntimeFailure,
    no_handler,
)
from podfit.kit.clock import Clock, RealClock
from podfit.kit.concurrency.tasks import Tasks
from podfit.podnet.network import PodNetwork

REMOVE_TRIES = 200
KILL_WAIT_S = 10.0


class ProcessRuntime(ImageCalls, ResourceCalls, StreamCalls):
    name = "podfit"
    version = "1"
    handlers: tuple[Handler, ...] = ()
    in_memory = separate = local_profiles = False

    def __init__(
        self,
        data_dir: Path,
        cgroup_root: str = "/podfit",
        image_fallback: str = "",
        insecure_registries: Collection[str] = (),
        images_dir: Path | None = None,
        host_ip: str = "127.0.0.1",
        clock: Clock | None = None,
        network: PodNetwork | None = None,
    ) -> None:
        """`image_fallback`: "host" runs absent images on the node's own files, with a warning for each. `network`:
        connects pods; without it they share the host's network."""
        self.data_dir = Path(data_dir).absolute()
        self.cgroup_root = "/" + cgroup_root.strip("/")
        owner, folder = self.cgroup_root.strip("/").replace("/", "-"), images_dir or self.data_dir / "images"
        self._images = NodeImages(folder, owner, image_fallback, insecure_registries)
        self._networks = Networks(network, host_ip)
        self._clock = clock or RealClock()
        self._records = Records(self.data_dir)
        self._pods: dict[str, Pod] = {}
        self._containers: dict[str, Container] = {}
        self._ends: dict[str, asyncio.Future[None]] = {}
        self._execs: dict[str, asyncio.Future[int]] = {}
        self._events: asyncio.Queue[RuntimeEvent] = asyncio.Queue()
        self._link = Link(self.data_dir, self._on_message, self._handle_missed_exits)
        self._tasks = Tasks("runtime")
        self.confirmations = Confirmations()
        self._cgroups: Cgroups
        self._oom: OomWatch

    async def problem(self) -> str:
        return ""

    async def open(self) -> None:
        self._cgroups = require_support()
        self.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._records.prepare()
        self._oom = OomWatch(self._cgroups, self._ran_out_of_memory)
        self._cgroups.create(self.cgroup_root, Limits())
        await self._link.open()
        self._pods = self._records.load()
        self._containers = {cid: item for pod in self._pods.values() for cid, item in pod.containers.items()}
        for cid, container in self._containers.items():
            if container.exited:
                self._free_quota(container)
            else:
                self._ends[cid] = asyncio.get_running_loop().create_future()
                self._oom.add(cid, container.record.group)
        for pod in self._pods.values():
            # After a reboot the records still exist, but the cgroups and processes do not.
            pod.record.stopped = pod.record.stopped or not self._cgroups.exists(pod.record.group)
        await self._networks.open(self._pods.keys())
        for uid, pod in self._pods.items():
            pod.lost = not pod.record.stopped and self._networks.is_lost(uid)
        await self._remove_strays()
        self._images.open(self._containers)

    async def _remove_strays(self) -> None:
        """Removes groups without a record: an agent died while it created or removed them."""
        known = {pod.record.group for pod in self._pods.values()} | {
            item.record.group for item in self._containers.values()
        }
        for group in self._cgroups.below(self.cgroup_root):
            parent, _, name = group.rpartition("/")
            if group not in known and (name.startswith("pod") or parent in known):
                self._cgroups.kill_all(group)
                await self._remove_group(group)

    async def close(self) -> None:
        await self._tasks.stop()
        await self._link.close()
        await self._networks.close()
        self._oom.close()
        self._images.close()

    async def purge(self) -> None:
        """Ends and removes everything this runtime ever created, including its root cgroups."""
        for uid in list(self._pods):
            await self.remove_pod(uid)
        await self._networks.purge()
        self._cgroups.kill_all(self.cgroup_root)
        await self._remove_group(self.cgroup_root)

    async def events(self) -> AsyncIterator[RuntimeEvent]:
        while True:
            yield await self._events.get()

    # pods

    async def run_pod(self, config: PodConfig) -> None:
        known = self._pods.get(config.uid)
        if known is not None and not known.record.stopped:
            return
        if config.handler:
            raise no_handler(config.handler)
        group = pod_group(self.cgroup_root, config.qos, config.uid)
        self._cgroups.create(group, config.limits)
        await self._networks.connect(config)
        record = StoredPod(config, self._clock.now(), group)
        self._records.save_pod(record)
        self._pods[config.uid] = Pod(record, known.containers if known is not None else {})

    async def stop_pod(self, uid: str) -> None:
        pod = self._pods.get(uid)
        if pod is None or pod.record.stopped:
            return
        pod.ending = True
        self._cgroups.kill_all(pod.record.group)
        with suppress(KeeperFailed):
            await self._link.ask("forget_pod", uid=uid)
        async with asyncio.timeout(KILL_WAIT_S):
            await asyncio.gather(*(self._until_ended(cid) for cid, item in pod.containers.items() if item.running))
        await self._networks.disconnect(uid)
        pod.record.stopped = True
        self._records.save_pod(pod.record)

    async def remove_pod(self, uid: str) -> None:
        pod = self._pods.get(uid)
        if pod is None:
            return
        await self.stop_pod(uid)
        await self._networks.disconnect(uid)  # a pod that was stopped by a reboot still holds its address
        for cid in list(pod.containers):
            await self.remove_container(cid)
        await self._remove_group(pod.record.group)
        self._records.drop_pod(uid)
        self._pods.pop(uid, None)

    async def pods(self) -> list[PodState]:
        return [pod.view(self._networks.ips(uid)) for uid, pod in self._pods.items()]

    async def pod(self, uid: str) -> PodState | None:
        pod = self._pods.get(uid)
        return pod.view(self._networks.ips(uid)) if pod is not None else None

    # containers

    async def create_container(self, uid: str, config: ContainerConfig) -> str:
        pod = self._pod(uid)
        self._check_lasts(pod, "CreateContainerError")
        if config.devices:
            raise CannotRun("block volumes need a runtime of virtual machines", "CreateContainerError")
        if not self._cgroups.exists(pod.record.group):
            self._pod_lost(pod)
            raise CannotRun(f"the cgroup of pod {uid} is gone", "CreateContainerError")
        if self._networks.is_lost(uid):
            self._pod_lost(pod)
            raise CannotRun(f"the network namespace of pod {uid} is gone", "CreateContainerError")
        cid = uuid.uuid4().hex
        image = self._images.take(config, cid)
        try:
            record = self._make(pod, cid, self._images.take_mounted(config, cid), image)
        except BaseException:
            self._images.release_all(image.id, config, cid)
            raise
        self._containers[cid] = pod.containers[cid] = Container(record)
        self._ends[cid] = asyncio.get_running_loop().create_future()
        self._oom.add(cid, record.group)
        return cid

    def _make(self, pod: Pod, cid: str, config: ContainerConfig, image: Image) -> ContainerRecord:
        group = f"{pod.record.group}/{cid}"
        folder, network = self._records.folder(cid), self._networks.namespace(pod.record.config.uid)
        spec = launch_spec(cid, pod.record.config, config, image, self._cgroups, group, folder, network)
        try:
            self._cgroups.create(group, config.limits)
            confine_devices(spec, self._cgroups, group)
        except RuntimeFailure as error:
            self._cgroups.remove(group)
            raise CannotRun(f"failed to create container: {error}", "CreateContainerError") from error
        record = ContainerRecord(
            id=cid,
            pod_uid=pod.record.config.uid,
            config=config,
            image_id=image.reported,
            image=image.name,
            created_at=self._clock.now(),
            group=group,
            user=LinuxUser(spec["uid"], spec["gid"], tuple(spec["groups"])),
            warning=runs_on_host(config.image, spec["argv"]) if image.id == HOST != config.image else "",
            image_key=image.id,
            stop_signal=config.stop_signal or image.stop_signal,
        )
        self._records.save_container(record, spec)
        return record

    async def start_container(self, container_id: str) -> None:
        container = self._container(container_id)
        if container.state:
            if container.running:
                return
            raise CannotRun(f"container {container_id} has ended", "RunContainerError")
        pod = self._pod(container.record.pod_uid)
        target = pod.pid_of(container.record.config.target)
        folder = str(self._records.folder(container_id))
        try:
            answer = await self._link.ask("start", folder=folder, peers=pod.pids(), target=target)
        except KeeperFailed as error:
            await self._failed_to_start(container, str(error))
            raise CannotRun(f"failed to start container: {error}", "RunContainerError") from error
        self._started(container_id, answer["state"])
        try:
            self._check_lasts(self._pod(container.record.pod_uid), "RunContainerError")
        except (CannotRun, NotFound):
            await self._kill(container)  # the container did not exist yet when all others were stopped
            raise

    @staticmethod
    def _check_lasts(pod: Pod, reason: str) -> None:
        if pod.ending or pod.record.stopped:
            raise CannotRun(f"pod {pod.record.config.uid} is stopped", reason)

    async def _failed_to_start(self, container: Container, message: str) -> None:
        self._cgroups.kill_all(container.record.group)  # a keeper that died may have started the container before
        self._oom.remove(container.record.id)
        self._free_quota(container)
        if not container.exited:
            at = self._clock.now()
            container.state = {
                "started_at": at,
                "finished_at": at,
                "exit_code": 128,
                "reason": "StartError",
                "message": message,
            }
        end = self._ends.pop(container.record.id, None)
        if end is not None and not end.done():
            end.set_result(None)

    async def stop_container(self, container_id: str, grace_s: float) -> None:
        container = self._containers.get(container_id)
        if container is None or not container.running:
            return
        if grace_s > 0:
            number = stop_signal(container.record.stop_signal)
            await self._link.ask("signal", id=container_id, signal=int(number))
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self._until_ended(container_id)
        if container.running:
            await self._kill(container)
            async with asyncio.timeout(KILL_WAIT_S):
                await self._until_ended(container_id)

    async def remove_container(self, container_id: str) -> None:
        container = self._containers.get(container_id)
        if container is None:
            return
        await self.stop_container(container_id, 0)
        with suppress(KeeperFailed):
            await self._link.ask("forget", id=container_id)
        self._oom.remove(container_id)
        self._ends.pop(container_id, None)
        await self._remove_group(container.record.group)
        self._records.drop_container(container_id)
        self._images.release_all(container.record.image_key, container.record.config, container_id)
        self._containers.pop(container_id, None)
        pod = self._pods.get(container.record.pod_uid)
        if pod is not None:
            pod.containers.pop(container_id, None)

    async def container(self, container_id: str) -> ContainerState | None:
        container = self._containers.get(container_id)
        return container.view() if container is not None else None

    async def exec_sync(
        self, container_id: str, command: list[str], timeout_s: float = 0.0
    ) -> tuple[int, bytes, bytes]:
        return await exec_sync(self, container_id, command, timeout_s)

    # networks

    async def connect(self, uid: str, port: int) -> ByteStream:
        self._pod(uid)
        return await self._networks.dial(uid, port)

    async def redirect(self, address: str, port: int, target: str, target_port: int) -> None:
        await self._networks.redirect(address, port, target, target_port)

    def use_range(self, pod_range: str) -> None:
        self._networks.use_range(pod_range)

    # --- events of the keeper

    def _on_message(self, message: dict[str, Any]) -> None:
        if message["event"] == "exec":
            future = self._execs.pop(message["key"], None)
            if future is not None and not future.done():
                future.set_result(message["code"])
        elif message["event"] == "started":
            self._started(message["id"], message["state"])
        elif message["event"] == "exited":
            self._ended(message["id"], message["state"])

    def _started(self, container_id: str, state: dict[str, Any]) -> None:
        container = self._containers.get(container_id)
        if container is not None and not container.state:
            container.state = state
            self._events.put_nowait(RuntimeEvent("started", container.record.pod_uid, container_id))

    def _ended(self, container_id: str, state: dict[str, Any]) -> None:
        container = self._containers.get(container_id)
        if container is None:
            return
        container.state = state
        self._free_quota(container)
        self._oom.remove(container_id)
        end = self._ends.pop(container_id, None)
        if end is not None and not end.done():
            end.set_result(None)
        self._events.put_nowait(RuntimeEvent("exited", container.record.pod_uid, container_id))

    def _ran_out_of_memory(self, container_id: str) -> None:
        container = self._containers.get(container_id)
        if container is not None:
            self._events.put_nowait(RuntimeEvent("oom", container.record.pod_uid, container_id))

    def _handle_missed_exits(self) -> None:
        """Handles exits that happened before a new keeper took over, which are recorded in the state files."""
        for future in self._execs.values():
            if not future.done():
                future.set_result(137)
        self._execs.clear()
        for cid, container in self._containers.items():
            state = self._records.state(cid)
            if container.running and "exit_code" in state:
                self._ended(cid, state)

    async def _remove_group(self, group: str) -> None:
        """Removes a group, which is busy until its members have died after SIGKILL."""
        for attempt in range(REMOVE_TRIES):
            if self._cgroups.remove(group):
                return
            self._cgroups.kill_all(group)
            await asyncio.sleep(min(0.001 * 2**attempt, 0.05))
        raise RuntimeFailure(f"cgroup {group} cannot be removed: a process in it does not die")
