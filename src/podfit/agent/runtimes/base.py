"""The interface between the agent and a container runtime. It maps to CRI: values are the kernel's.

One contract suite (tests/contract/test_runtime.py) covers every runtime. Ids are the runtime's; a pod is identified by
its UID, a container by the id that `create_container` returned. Every call is idempotent where that makes sense:
stopping a stopped container and removing a missing one succeed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Protocol

from podfit.agent.runtimes.confirmations import Confirmations
from podfit.agent.runtimes.values import (
    RUNNING,
    ContainerConfig,
    ContainerState,
    Handler,
    ImageState,
    Limits,
    LimitsChange,
    PodConfig,
    PodState,
    RuntimeEvent,
    Usage,
)
from podfit.images.registries.credentials import Credentials
from podfit.streaming.ends import ByteStream as ByteStream
from podfit.streaming.ends import ExecStream as ExecStream


class Runtime(Protocol):
    name: str
    """The runtime's name, as in `name://version` of the Node's containerRuntimeVersion, and the scheme of container
    IDs."""
    version: str
    confirmations: Confirmations
    """Resizes that are applied in the kernel and not yet confirmed by the runtime."""

    @property
    def in_memory(self) -> bool:
        """Whether its pods are simulated in this process: they have no cgroups, and end with it."""

    @property
    def separate(self) -> bool:
        """Whether the runtime is a program of its own, which may fail or be restarted while the agent runs."""

    @property
    def local_profiles(self) -> bool:
        """Whether the runtime can confine containers by seccomp and AppArmor profiles stored on the node."""

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """The handlers for RuntimeClasses, as in the Node's status; () if there are none."""

    async def problem(self) -> str:
        """The reason why the runtime cannot run pods now, for the Node's Ready condition; "" if it can."""

    async def open(self) -> None:
        """Prepares the runtime and finds pods that were running before the agent started."""

    async def close(self) -> None:
        """Disconnects; pods keep running."""

    async def purge(self) -> None:
        """Stops and removes every pod, and everything this runtime stores on the machine for pods."""

    def events(self) -> AsyncIterator[RuntimeEvent]:
        """The runtime's events, for a single consumer. Never blocks the runtime; after a gap the agent observes every
        pod anyway."""

    # pods
    async def run_pod(self, config: PodConfig) -> None:
        """Creates the pod: its cgroup with its limits, its namespaces. Idempotent for the same uid; a stopped pod is
        recreated, as after a reboot, and keeps the states of its old containers."""

    async def stop_pod(self, uid: str) -> None:
        """Kills all its processes and frees its resources; its containers' states stay readable."""

    async def remove_pod(self, uid: str) -> None:
        """Removes the records of the pod and its containers, and its cgroup."""

    async def pods(self) -> list[PodState]: ...

    async def pod(self, uid: str) -> PodState | None: ...

    # containers
    async def create_container(self, uid: str, config: ContainerConfig) -> str: ...

    async def start_container(self, container_id: str) -> None: ...

    async def stop_container(self, container_id: str, grace_s: float) -> None:
        """Sends SIGTERM, then SIGKILL after the grace period; returns when the container has exited."""

    async def remove_container(self, container_id: str) -> None: ...

    async def container(self, container_id: str) -> ContainerState | None: ...

    # resources
    async def update_pod(self, uid: str, change: LimitsChange) -> None:
        """Writes the pod's cgroup. Memory below usage raises BelowUsage and changes nothing."""

    async def update_container(self, container_id: str, change: LimitsChange) -> None:
        """Writes the cgroup of a created or running container, with the guarantee of `update_pod`."""

    async def update_all(self, uid: str, changes: Sequence[tuple[str, LimitsChange]]) -> bool:
        """Applies changes of a pod ("") and its containers (by ID) as one, for runtimes whose backend answers late.

        True: the kernel has all of them, written in this order; `confirmations` receives the backend's answer, and an
        event (confirmed, refused) announces it. False: nothing has changed, and the caller applies the changes one by
        one, which also shows which one is refused.
        """

    async def set_power(self, container_id: str, power: str, grace_s: float) -> None:
        """Pauses, suspends, shuts down or starts a virtual machine; its container stays. A guest that does not shut
        down within the grace period is powered off."""

    async def pod_limits(self, uid: str) -> Limits:
        """The current limits in the kernel (CPU shares as configured, if the kernel's representation is coarser)."""

    async def container_limits(self, container_id: str) -> Limits: ...

    async def pod_usage(self, uid: str) -> Usage: ...

    async def container_usage(self, container_id: str) -> Usage: ...

    async def usages(self, uid: str) -> list[tuple[ContainerState, Usage]]:
        """Usage of all running containers of one pod: a meter reads every pod."""

    async def memory_below(self, uid: str, container_id: str, bytes: int) -> None:
        """Returns once usage of the container (of the pod if the id is "") is below `bytes`, notified by the kernel if
        possible. Cancel it to stop waiting."""

    async def memory_above(self, uid: str, container_id: str, bytes: int) -> None:
        """Returns once usage of the container is at or above `bytes`, notified by the kernel within milliseconds if
        possible. Cancel it to stop waiting."""

    async def memory_stall(self, container_id: str) -> int | None:
        """Total microseconds that tasks of the container have stalled on memory; None if the kernel does not count them
        (it does on cgroup v2), or usage cannot be held."""

    async def hold_memory(self, container_id: str, bytes: int | None) -> None:
        """Throttles the container instead of letting it run out of memory: on cgroup v2 the kernel slows it down above
        `bytes` (memory.high), on v1 it pauses at its limit. None removes that."""

    # streams
    async def exec(
        self, container_id: str, command: list[str], tty: bool = False, stdin: bool = False
    ) -> ExecStream: ...

    async def exec_sync(
        self, container_id: str, command: list[str], timeout_s: float = 0.0
    ) -> tuple[int, bytes, bytes]:
        """Runs a command to its end: exit code, standard output and error, of which only the beginning is kept. The
        command is killed if the call is cancelled, or after `timeout_s` (0: never)."""

    async def attach(self, container_id: str, stdin: bool = False) -> ExecStream: ...

    async def connect(self, uid: str, port: int) -> ByteStream: ...

    # networks
    async def redirect(self, address: str, port: int, target: str, target_port: int) -> None:
        """TCP connections to `address`:`port` from pods with their own network reach `target`:`target_port` of the
        node, even on a loopback address."""

    def use_range(self, pod_range: str) -> None:
        """Sets the Node's spec.podCIDR, for pods that are created from now on."""

    # images
    async def image_status(self, image: str, handler: str = "") -> ImageState | None:
        """An image on this node, by any of its names or its id; None if it is absent."""

    async def pull_image(self, image: str, credentials: Credentials | None = None, handler: str = "") -> str:
        """Pulls from the registry even if the image is present, and returns its id. Raises ImageMissing."""

    async def images(self) -> list[ImageState]: ...

    async def remove_image(self, image_id: str) -> None:
        """Deletes an image. Raises RuntimeFailure if a container uses it."""

    async def images_folder(self) -> Path | None:
        """The folder of images: its disk is the image file system. None without one."""

    async def writable_layer(self, container_id: str) -> Path | None:
        """The node's folder that contains a container's writable layer; None if there is none."""

    async def pod_files(self, uid: str) -> list[Path]:
        """Files of the node that every container of a pod can write to, such as the pod's /etc/hosts."""

    async def reclaim_disk(self) -> None:
        """Deletes the writable layers of exited containers, and leftovers of interrupted operations. Images stay."""


async def running_pods(runtime: Runtime) -> list[PodState]:
    """Pods with a running process."""
    return [
        pod
        for pod in await runtime.pods()
        if pod.alive and any(container.state == RUNNING for container in pod.containers)
    ]
