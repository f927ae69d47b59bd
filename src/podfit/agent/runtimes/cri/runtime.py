"""The runtime for pods in containerd, CRI-O and other CRI servers: implements the agent's interface by CRI calls.

Pods and containers carry a label with the agent's name and, as an annotation, the data that the agent needs after a
restart: it is stored only in the runtime, so it cannot disagree with the running containers.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from podfit.agent.runtimes.cgroups import Cgroups, detect
from podfit.agent.runtimes.cgroups.files import remove_everywhere
from podfit.agent.runtimes.confirmations import Confirmations
from podfit.agent.runtimes.cri.commands import Commands, StreamCalls
from podfit.agent.runtimes.cri.failures import failure, not_ready
from podfit.agent.runtimes.cri.images import Images
from podfit.agent.runtimes.cri.messages.cgroup_paths import CgroupPaths, cgroup_driver
from podfit.agent.runtimes.cri.messages.subpaths import SubPaths
from podfit.agent.runtimes.cri.notes import Note, write_note
from podfit.agent.runtimes.cri.pods.containers import CriContainers
from podfit.agent.runtimes.cri.pods.migrations import Migrations
from podfit.agent.runtimes.cri.pods.network import Network
from podfit.agent.runtimes.cri.pods.rotation import Rotation
from podfit.agent.runtimes.cri.pods.sandboxes import CriSandboxes
from podfit.agent.runtimes.cri.resize.resources import Resources
from podfit.agent.runtimes.cri.state.inventory import Inventory
from podfit.agent.runtimes.cri.state.readings import Readings
from podfit.agent.runtimes.values import (
    ContainerConfig,
    ContainerState,
    Handler,
    ImageState,
    Limits,
    LimitsChange,
    PodConfig,
    PodState,
    RuntimeEvent,
    RuntimeFailure,
    Usage,
)
from podfit.cri import CriClient, CriError
from podfit.cri import api_pb2 as api
from podfit.cri.configuration import configuration
from podfit.images.registries.credentials import Credentials
from podfit.podnet.kernel.redirects import Redirects


class CriRuntime(StreamCalls):
    name = "cri"
    version = ""
    handlers: tuple[Handler, ...] = ()
    in_memory = False
    separate = local_profiles = True

    def __init__(
        self,
        endpoint: str,
        node: str,
        data_dir: Path,
        cgroup_root: str = "/",
        host_ip: str = "127.0.0.1",
        own_cgroups: bool = True,
    ) -> None:
        """`node` identifies this agent's objects in the runtime. `own_cgroups`: containers are processes of this
        machine, in cgroups below the pod's; without it only the runtime sets limits and reports usage."""
        self.client = CriClient(endpoint)
        self.data_dir = Path(data_dir).absolute()
        self._node, self._cgroup_root, self._ips, self._own_cgroups = node, cgroup_root, (host_ip,), own_cgroups
        self._redirects = Redirects(f"{node}_{self.data_dir.name}".removeprefix("podfit-"))
        self._images = Images(self.client)
        self._network = Network(self.client, self._redirects)
        self.confirmations = Confirmations()
        self._cgroups: Cgroups | None = None
        self._inventory: Inventory
        self._sandboxes: CriSandboxes
        self._containers: CriContainers
        self._resources: Resources
        self._readings: Readings

    async def problem(self) -> str:
        try:
            answer = await self.client.ask("Status", api.StatusRequest())
        except CriError as error:
            raise failure(error) from error
        return not_ready(answer.status)

    async def open(self) -> None:
        try:
            version = await self.client.ask("Version", api.VersionRequest(version="v1"))
            status = await self.client.ask("Status", api.StatusRequest(verbose=True))
        except CriError as error:
            raise RuntimeFailure(
                f"the container runtime at {self.client.endpoint} does not answer: {error.details}; "
                "is it running, and does --container-runtime-endpoint name its socket?"
            ) from error
        self.name, self.version = version.runtime_name, version.runtime_version
        self.handlers = tuple(
            Handler(handler.name, handler.features.recursive_read_only_mounts, handler.features.user_namespaces)
            for handler in status.runtime_handlers
        )
        self._images.sandbox = str(configuration(status).get("sandboxImage") or "")
        self._cgroups = detect() if self._own_cgroups else None
        places = CgroupPaths(self._cgroup_root, await cgroup_driver(self.client, status))
        self._inventory = Inventory(self.client, self._node, places, self._cgroups)
        subpaths = SubPaths(self.data_dir / "subpaths")
        self._sandboxes = CriSandboxes(self._inventory, subpaths)
        self._containers = CriContainers(self._inventory, subpaths)
        self._resources = Resources(self._inventory, self.confirmations)
        self._migrations = Migrations(self._inventory, subpaths)
        self._readings = Readings(self._inventory)
        self._network.pods = self._inventory.pods
        self._commands = Commands(self._inventory)
        if self._cgroups is not None:
            self._cgroups.create(places.root, Limits())
            self._cgroups.expect_cpusets()
        write_note(self.data_dir, Note(self.client.endpoint, self._node, self._cgroup_root))
        await self._inventory.open()
        self._inventory.tasks.start(Rotation(self._inventory).run(), "cri-logs")

    @property
    def cgroup_root(self) -> str:
        """The group below which all pods are."""
        return self._inventory.places.root

    async def close(self) -> None:
        await self._network.close()
        await self._inventory.close()
        await self.client.close()

    async def purge(self) -> None:
        await self._sandboxes.remove_all()
        if self._cgroups is not None and self._inventory.places.own:
            # Another runtime of the node may have pods below the same root: then it stays.
            remove_everywhere(self._inventory.places.own)
        await self._redirects.purge()
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def migrations(self, handler: str = "") -> Migrations:
        """The migrations of pods of the handler."""
        return self._migrations

    def events(self) -> AsyncIterator[RuntimeEvent]:
        return self._inventory.events()

    # --- pods
    async def run_pod(self, config: PodConfig) -> None:
        await self._sandboxes.run(config)
        await self._network.follow(config.uid)

    async def stop_pod(self, uid: str) -> None:
        await self._sandboxes.stop(uid)

    async def remove_pod(self, uid: str) -> None:
        await self._sandboxes.remove(uid)
        self.confirmations.settle(uid)

    async def pods(self) -> list[PodState]:
        return [pod.view(self._ips) for pod in self._inventory.pods.values()]

    async def pod(self, uid: str) -> PodState | None:
        pod = self._inventory.pods.get(uid)
        return pod.view(self._ips) if pod is not None else None

    # --- containers
    async def create_container(self, uid: str, config: ContainerConfig) -> str:
        return await self._containers.create(uid, config)

    async def start_container(self, container_id: str) -> None:
        await self._containers.start(container_id)

    async def stop_container(self, container_id: str, grace_s: float) -> None:
        await self._containers.stop(container_id, grace_s)

    async def remove_container(self, container_id: str) -> None:
        await self._containers.remove(container_id)

    async def container(self, container_id: str) -> ContainerState | None:
        known = self._inventory.containers.get(container_id)
        return known.state if known is not None else None

    # --- resources
    async def update_pod(self, uid: str, change: LimitsChange) -> None:
        await self._resources.update_pod(uid, change)

    async def update_all(self, uid: str, changes: Sequence[tuple[str, LimitsChange]]) -> bool:
        return await self._resources.update_all(uid, changes)

    async def update_container(self, container_id: str, change: LimitsChange) -> None:
        await self._resources.update_container(container_id, change)

    async def set_power(self, container_id: str, power: str, grace_s: float) -> None:
        await self._containers.set_power(container_id, power, grace_s)

    async def pod_limits(self, uid: str) -> Limits:
        return await self._readings.pod_limits(uid)

    async def container_limits(self, container_id: str) -> Limits:
        return await self._readings.container_limits(container_id)

    async def pod_usage(self, uid: str) -> Usage:
        return await self._readings.pod_usage(uid)

    async def container_usage(self, container_id: str) -> Usage:
        return await self._readings.container_usage(container_id)

    async def usages(self, uid: str) -> list[tuple[ContainerState, Usage]]:
        return await self._readings.usages(uid)

    async def memory_above(self, uid: str, container_id: str, bytes: int) -> None:
        await self._readings.memory_above(container_id, bytes)

    async def memory_stall(self, container_id: str) -> int | None:
        return self._readings.memory_stall(container_id)

    async def hold_memory(self, container_id: str, bytes: int | None) -> None:
        self._readings.hold_memory(container_id, bytes)

    async def memory_below(self, uid: str, container_id: str, bytes: int) -> None:
        await self._readings.memory_below(uid, container_id, bytes)

    # --- networks
    async def redirect(self, address: str, port: int, target: str, target_port: int) -> None:
        await self._network.redirect(address, port, target, target_port)

    def use_range(self, pod_range: str) -> None:
        self._network.use_range(pod_range)

    # --- images and files
    async def image_status(self, image: str, handler: str = "") -> ImageState | None:
        return await self._images.status(image, handler)

    async def pull_image(self, image: str, credentials: Credentials | None = None, handler: str = "") -> str:
        return await self._images.pull(image, credentials, handler)

    async def images(self) -> list[ImageState]:
        return await self._images.all()

    async def remove_image(self, image_id: str) -> None:
        await self._images.remove(image_id)

    async def images_folder(self) -> Path | None:
        return await self._images.folder()

    async def writable_layer(self, container_id: str) -> Path | None:
        return self._containers.writable_layer(container_id)

    async def pod_files(self, uid: str) -> list[Path]:
        return []

    async def reclaim_disk(self) -> None:
        """The runtime removes the writable layers of exited containers with them."""
