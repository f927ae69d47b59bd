"""What the agent asks of a runtime, and what a runtime tells the agent. Fit for CRI: values are the kernel's.

One contract suite (tests/contract/test_runtime.py) holds for every runtime. Ids are the runtime's; a pod is named by
its UID, a container by the id that `create_container` gave. Every call is idempotent where that makes sense: stopping
what is stopped and removing what is gone succeed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from podfit.images.credentials import Credentials
from podfit.podnet.ports import PortMapping
from podfit.streaming.ends import ByteStream as ByteStream
from podfit.streaming.ends import ExecStream as ExecStream
from podfit.streaming.ends import StreamFailure

from .confirmations import Confirmations

MIN_SHARES, MAX_SHARES = 2, 262144
MIN_QUOTA_US = 1000
PERIOD_US = 100_000


class RuntimeFailure(StreamFailure):
    """Root of what a runtime may raise. The message is shown to users as it is."""


class RuntimeSilent(RuntimeFailure):
    """The runtime is away or does not answer: nobody knows whether it did what was asked."""


class NotFound(RuntimeFailure):
    """No such pod, container or image."""


class ImageMissing(RuntimeFailure):
    """The image is absent and cannot be pulled; `reason` is Kubernetes' word for it (ErrImagePull, InvalidImageName).

    The message is what the registry or the runtime said: it is shown in the container's status and in Events.
    """

    def __init__(self, message: str, reason: str = "ErrImagePull") -> None:
        super().__init__(message)
        self.reason = reason


def invalid_image(name: str, complaint: str = "invalid reference format") -> ImageMissing:
    why = f'couldn\'t parse image name "{name}": {complaint}'
    return ImageMissing(f'Failed to apply default image tag "{name}": {why}', "InvalidImageName")


class CannotRun(RuntimeFailure):
    """The container cannot be created or started; `reason` as Kubernetes has it (CreateContainerError and the like)."""

    def __init__(self, message: str, reason: str = "RunContainerError") -> None:
        super().__init__(message)
        self.reason = reason


class WriteRefused(RuntimeFailure):
    """The kernel refused a limit. `why` says how, without the path of the cgroup, which means nothing to users."""

    def __init__(self, group: str, why: str) -> None:
        super().__init__(f"cgroup {group}: {why}")
        self.why = why


class BelowUsage(RuntimeFailure):
    """A memory limit below what is in use and cannot be reclaimed: nothing was changed, nobody was killed."""

    def __init__(self, usage_bytes: int, limit_bytes: int, outside_bytes: int = 0) -> None:
        """`outside_bytes`: of a pod, what is held by processes of the runtime that belong to no container."""
        super().__init__(f"memory limit ({limit_bytes}) below current usage ({usage_bytes})")
        self.usage_bytes, self.limit_bytes, self.outside_bytes = usage_bytes, limit_bytes, outside_bytes


class Limits(Struct, frozen=True):
    """What a cgroup is told. None means unlimited (quota, memory) or left as it is (where a call says so)."""

    cpu_shares: int | None = None
    cpu_quota_us: int | None = None
    memory_bytes: int | None = None
    cpu_period_us: int = PERIOD_US
    cpuset_cpus: str = ""
    """The CPUs it may run on, as the kernel lists them (0-3,8); "" for all of its parent's."""


UNLIMITED = -1
"""In `Change`: lift the limit."""


class Change(Struct, frozen=True):
    """A partial update of a cgroup: None leaves a value alone, UNLIMITED lifts a limit."""

    cpu_shares: int | None = None
    cpu_quota_us: int | None = None
    memory_bytes: int | None = None
    cpuset_cpus: str = ""
    """As in `Limits`; "" leaves it alone, as it does in a CRI call."""


def hidden_folder(node: Path) -> Path:
    """What no container may see of a node that keeps its files here: the whole data directory, keys and store too."""
    return node.parents[1] if node.parent.name == "nodes" else node


@dataclass(frozen=True, slots=True)
class Mount:
    host_path: Path
    container_path: str
    read_only: bool = False
    sub_path: str = ""
    """Below `host_path`, a volume that containers can change: resolved when it is mounted, and never out of it."""


@dataclass(frozen=True, slots=True)
class Security:
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    strict_groups: bool = False
    """Only these: the image's memberships do not count."""
    privileged: bool = False
    add_capabilities: tuple[str, ...] = ()
    drop_capabilities: tuple[str, ...] = ()
    no_new_privileges: bool = False
    read_only_root: bool = False
    seccomp: str = ""
    """"" (unconfined), "RuntimeDefault", or "Localhost/" and the name of a profile of the node."""
    apparmor: str = ""
    """"" (the runtime's choice), "RuntimeDefault", "Unconfined", or "Localhost/" and the name of a profile."""
    escalation: bool | None = None
    """allowPrivilegeEscalation, as the spec says."""
    unmasked_proc: bool = False


@dataclass(frozen=True, slots=True)
class PodConfig:
    uid: str
    name: str
    namespace: str
    qos: str
    """Guaranteed, Burstable or BestEffort: decides where the pod's cgroup hangs."""
    limits: Limits
    hostname: str
    log_folder: Path
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_process_namespace: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Kept by the runtime and given back by `pods`: enough for the agent to know its pods after a restart."""
    resolv_conf: str = ""
    etc_hosts: str = ""
    host_ports: tuple[PortMapping, ...] = ()
    """Of a pod with a network of its own."""
    sysctls: Mapping[str, str] = field(default_factory=dict)
    handler: str = ""
    """The RuntimeClass's handler: which of several runtimes runs the pod, and how. "" is the default."""
    security: Security = Security()
    """What holds for the pod as a whole; `privileged` if any container is."""


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    name: str
    attempt: int
    """0 for the first container of this name in the pod, then 1, 2 …"""
    image: str
    """As the pod names it."""
    command: tuple[str, ...]
    args: tuple[str, ...]
    environment: Mapping[str, str]
    working_dir: str
    mounts: tuple[Mount, ...]
    limits: Limits
    log_file: Path
    """Written in CRI's log format: `time stream F|P text`."""
    log_max_bytes: int = 10 << 20
    """The runtime starts a new file before one grows beyond this; negative: never."""
    log_max_files: int = 5
    """The current one included; the oldest are deleted."""
    oom_score_adj: int = 0
    tty: bool = False
    stdin: bool = False
    stdin_once: bool = False
    security: Security = Security()
    stop_signal: str = ""
    """The signal that asks it to end, as SIGUSR1; "" is the image's, or SIGTERM."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    """The container of the pod whose processes it sees, and lives no longer than."""
    image_id: str = ""
    """What `image_status` or `pull_image` gave for `image`: the container runs exactly this image. "" looks it up."""


class ImageState(Struct, frozen=True):
    """An image on this node."""

    id: str
    """`sha256:…`, the digest of its configuration."""
    tags: tuple[str, ...] = ()
    """`docker.io/library/nginx:1.25`."""
    digests: tuple[str, ...] = ()
    """`docker.io/library/nginx@sha256:…`, the names under which registries have it."""
    size_bytes: int = 0
    user: str = ""
    """Whom it runs as, as its USER says it: "", "1000", "app", "app:staff"."""
    pinned: bool = False
    """Never deleted to free disk space."""
    host_files: bool = False
    """Not an image: the container runs on the node's own files. Never pulled, whatever the policy."""


CREATED, RUNNING, EXITED = "created", "running", "exited"


class LinuxUser(Struct, frozen=True):
    """Whom a container's first process is started as."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    """All of them, its own included."""


class Machine(Struct, frozen=True):
    """What a runtime reports of a container that is a virtual machine. 0: it does not say."""

    power: str = "Running"
    """Running, Paused, Suspended (to disk) or Shutdown. A machine that is off is a container that runs."""
    boot_memory_mib: int = 0
    max_memory_mib: int = 0
    max_vcpus: int = 0
    slots: int = 0
    """How many memory devices can be plugged; 0 where memory does not come in devices."""


class ContainerState(Struct, frozen=True):
    id: str
    name: str
    attempt: int
    state: str
    """CREATED, RUNNING or EXITED."""
    image: str
    """As status reports it: the full name by which the runtime knows it."""
    image_id: str
    """As status reports it: a name with a digest, or the id of an image that no registry has."""
    created_at: float
    started_at: float = 0.0
    finished_at: float = 0.0
    exit_code: int = 0
    reason: str = ""
    """Completed, Error, OOMKilled, ContainerCannotRun …"""
    message: str = ""
    pid: int = 0
    limits: Limits = Limits()
    """As configured; the actual values are read with `container_limits`."""
    annotations: Mapping[str, str] = {}
    user: LinuxUser | None = None
    """None where the runtime does not know."""
    warning: str = ""
    """What users must know of this container because its spec does not say it; an Event when it is created."""
    machine: Machine | None = None
    """Of a virtual machine."""


class PodState(Struct, frozen=True):
    config: PodConfig
    alive: bool
    ips: tuple[str, ...]
    created_at: float
    containers: tuple[ContainerState, ...]
    """All attempts that were not removed, oldest first."""


class Usage(Struct, frozen=True):
    """Read from the kernel at `at` (seconds since the epoch)."""

    at: float
    cpu_nanos: int = 0
    """Cumulative CPU time."""
    memory_bytes: int = 0
    working_set_bytes: int = 0
    rss_bytes: int = 0
    cache_bytes: int = 0
    page_faults: int = 0
    major_page_faults: int = 0
    throttled_periods: int = 0
    periods: int = 0
    throttled_nanos: int = 0
    oom_kills: int = 0
    processes: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened to a container or a pod: look at its state.

    `kind`: started, exited, oom, pod-gone, confirmed (see `Runtime.update_all`), refused (what was applied was taken
    back), or found: a pod that the agent did not know to be there, as when the answer to its creation was lost.
    """

    kind: str
    pod_uid: str
    container_id: str = ""


class Handler(Struct, frozen=True):
    """One way of running pods, by the name that a RuntimeClass has for it; "" is the default."""

    name: str
    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False


def no_machine(container_id: str) -> RuntimeFailure:
    return RuntimeFailure(f"container {container_id} is no virtual machine")


def no_handler(name: str) -> RuntimeFailure:
    return RuntimeFailure(f'failed to get sandbox runtime: no runtime for "{name}" is configured')


class Runtime(Protocol):
    name: str
    """As in `name://version` of the Node's containerRuntimeVersion, and the scheme of container ids."""
    version: str
    confirmations: Confirmations
    """Resizes that the kernel has and the runtime has not answered yet."""

    @property
    def local_profiles(self) -> bool:
        """Whether it can confine containers by seccomp and AppArmor profiles that are kept on the node."""

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """What a RuntimeClass may choose, as the Node's status lists it; () where there is nothing to choose."""

    async def problem(self) -> str:
        """Why it cannot run pods now, as the Node's Ready condition shows it; "" if it can."""

    async def open(self) -> None:
        """Gets ready and finds the pods that ran on while the agent was away."""

    async def close(self) -> None:
        """Lets go; pods keep running."""

    async def purge(self) -> None:
        """Ends and removes every pod, and whatever this runtime keeps on the machine for pods."""

    def events(self) -> AsyncIterator[Event]:
        """One consumer. Never blocks the runtime; after a gap the agent looks at everything anyway."""

    # pods
    async def run_pod(self, config: PodConfig) -> None:
        """Makes the pod: its cgroup with its limits, its namespaces. Idempotent for the same uid; a stopped pod is made
        anew, as after a reboot, and keeps the states of its old containers."""

    async def stop_pod(self, uid: str) -> None:
        """Kills whatever still runs in it and frees what it holds; its containers' states stay readable."""

    async def remove_pod(self, uid: str) -> None:
        """Forgets it and its containers, removes its cgroup."""

    async def pods(self) -> list[PodState]: ...

    async def pod(self, uid: str) -> PodState | None: ...

    # containers
    async def create_container(self, uid: str, config: ContainerConfig) -> str: ...

    async def start_container(self, container_id: str) -> None: ...

    async def stop_container(self, container_id: str, grace_s: float) -> None:
        """SIGTERM, then SIGKILL after the grace; returns when it is dead."""

    async def remove_container(self, container_id: str) -> None: ...

    async def container(self, container_id: str) -> ContainerState | None: ...

    # resources
    async def update_pod(self, uid: str, change: Change) -> None:
        """Writes the pod's cgroup. Memory below usage raises BelowUsage and changes nothing."""

    async def update_container(self, container_id: str, change: Change) -> None:
        """Writes the cgroup of a container that is created or runs; the same promise."""

    async def update_all(self, uid: str, changes: Sequence[tuple[str, Change]]) -> bool:
        """Makes changes of a pod ("") and its containers (their ids) as one, for runtimes with somebody behind them who
        answers late. True: the kernel has them all, written in this order, and `confirmations` has the answer when it
        is there; an event (confirmed, refused) announces it. False: nothing has changed, and they are to be made one by
        one, which also says what is refused."""

    async def set_power(self, container_id: str, power: str, grace_s: float) -> None:
        """Pauses, suspends, shuts down or starts a virtual machine; its container stays. A guest that does not shut
        down within the grace is cut off."""

    async def pod_limits(self, uid: str) -> Limits:
        """What the kernel has now (CPU shares as configured where the kernel's form is coarser)."""

    async def container_limits(self, container_id: str) -> Limits: ...

    async def pod_usage(self, uid: str) -> Usage: ...

    async def container_usage(self, container_id: str) -> Usage: ...

    async def usages(self, uid: str) -> list[tuple[ContainerState, Usage]]:
        """Of all running containers of a pod that is alive, and none of any other pod: a meter asks for every pod."""

    async def memory_below(self, uid: str, container_id: str, bytes: int) -> None:
        """Returns once usage of the container (of the pod if the id is "") is below `bytes`, told by the kernel
        where it can tell. Cancel it to stop waiting."""

    # streams
    async def exec(
        self, container_id: str, command: list[str], tty: bool = False, stdin: bool = False
    ) -> ExecStream: ...

    async def exec_sync(
        self, container_id: str, command: list[str], timeout_s: float = 0.0
    ) -> tuple[int, bytes, bytes]:
        """Runs a command to its end: exit code, output and errors, of which only the beginning is kept. The command is
        killed if the call is cancelled, or after `timeout_s` (0: never)."""

    async def attach(self, container_id: str, stdin: bool = False) -> ExecStream: ...

    async def connect(self, uid: str, port: int) -> ByteStream: ...

    # networks
    async def redirect(self, address: str, port: int, target: str, target_port: int) -> None:
        """TCP connections to `address`:`port` from pods with a network of their own reach `target`:`target_port` of
        the node, also where that is a loopback address."""

    def use_range(self, pod_range: str) -> None:
        """The Node's spec.podCIDR, for pods that are made from now on."""

    # images
    async def image_status(self, image: str, handler: str = "") -> ImageState | None:
        """An image on this node, by any of its names or its id; None if it is absent."""

    async def pull_image(self, image: str, credentials: Credentials | None = None, handler: str = "") -> str:
        """Pulls from the registry even if the image is here, and returns its id. Raises ImageMissing."""

    async def images(self) -> list[ImageState]: ...

    async def remove_image(self, image_id: str) -> None:
        """Deletes an image. One that a container uses stays: raises RuntimeFailure."""

    async def images_folder(self) -> Path | None:
        """Where images are kept: their disk is the image file system. None without one."""

    async def writable_layer(self, container_id: str) -> Path | None:
        """The folder of the node that holds what a container wrote to its root file system; None without one."""

    async def pod_files(self, uid: str) -> list[Path]:
        """Files of the node that every container of a pod can write to, such as its /etc/hosts."""

    async def reclaim_disk(self) -> None:
        """Deletes what containers that have ended wrote, and what was left of interrupted work. Images stay."""


async def running_pods(runtime: Runtime) -> list[PodState]:
    """Those with a process."""
    return [
        pod
        for pod in await runtime.pods()
        if pod.alive and any(container.state == RUNNING for container in pod.containers)
    ]
