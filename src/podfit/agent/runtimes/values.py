"""The values exchanged between the agent and its runtimes: configurations, states, limits, failures. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from podfit.podnet.ports import PortMapping
from podfit.streaming.ends import StreamFailure

MIN_SHARES, MAX_SHARES = 2, 262144
MIN_QUOTA_US = 1000
PERIOD_US = 100_000


class RuntimeFailure(StreamFailure):
    """Root of the errors of a runtime. The message is shown to users unchanged."""


class RuntimeSilent(RuntimeFailure):
    """The runtime is unreachable or does not answer: whether it carried out the request is unknown."""


class NotFound(RuntimeFailure):
    """No such pod, container or image."""


class ImageMissing(RuntimeFailure):
    """The image is absent and cannot be pulled; `reason` is Kubernetes' name for it (ErrImagePull, InvalidImageName).

    The message is that of the registry or the runtime: it is shown in the container's status and in Events.
    """

    def __init__(self, message: str, reason: str = "ErrImagePull") -> None:
        super().__init__(message)
        self.reason = reason


def invalid_image(name: str, complaint: str = "invalid reference format") -> ImageMissing:
    why = f'couldn\'t parse image name "{name}": {complaint}'
    return ImageMissing(f'Failed to apply default image tag "{name}": {why}', "InvalidImageName")


class CannotRun(RuntimeFailure):
    """The container cannot be created or started; `reason` is Kubernetes' name for it (CreateContainerError and the
    like)."""

    def __init__(self, message: str, reason: str = "RunContainerError") -> None:
        super().__init__(message)
        self.reason = reason


class WriteRefused(RuntimeFailure):
    """The kernel refused a limit. `why` is its error, without the path of the cgroup, which means nothing to users."""

    def __init__(self, group: str, why: str) -> None:
        super().__init__(f"cgroup {group}: {why}")
        self.why = why


class BelowUsage(RuntimeFailure):
    """A memory limit below unreclaimable usage: nothing was changed, no process was killed."""

    def __init__(self, usage_bytes: int, limit_bytes: int, outside_bytes: int = 0) -> None:
        """`outside_bytes`: for a pod, memory held by processes of the runtime that belong to no container."""
        super().__init__(f"memory limit ({limit_bytes}) below current usage ({usage_bytes})")
        self.usage_bytes, self.limit_bytes, self.outside_bytes = usage_bytes, limit_bytes, outside_bytes


class Limits(Struct, frozen=True):
    """The values of a cgroup. None: no limit, or the kernel's default of shares."""

    cpu_shares: int | None = None
    cpu_quota_us: int | None = None
    memory_bytes: int | None = None
    cpu_period_us: int = PERIOD_US
    cpuset_cpus: str = ""
    """The CPUs on which the group may run, as the kernel lists them (0-3,8); "" for all of its parent's."""


UNLIMITED = -1
"""The value that removes the limit in a `LimitsChange`."""


class LimitsChange(Struct, frozen=True):
    """A partial update of a cgroup: None leaves a value unchanged, UNLIMITED removes a limit."""

    cpu_shares: int | None = None
    cpu_quota_us: int | None = None
    memory_bytes: int | None = None
    cpuset_cpus: str = ""
    """The CPUs as in `Limits`; "" leaves them unchanged, as in a CRI call."""


def hidden_folder(node: Path) -> Path:
    """The data directory with keys and store, which is hidden from containers on a node that stores its files here."""
    return node.parents[1] if node.parent.name == "nodes" else node


@dataclass(frozen=True, slots=True)
class Mount:
    host_path: Path
    container_path: str
    read_only: bool = False
    sub_path: str = ""
    """A path below `host_path`, a volume that containers can change: resolved when it is mounted, and never out of
    it."""
    image_id: str = ""
    """The image whose files are mounted; the runtime then sets `host_path`."""


@dataclass(frozen=True, slots=True)
class Device:
    """A block volume: a device or a file of the node."""

    host_path: Path
    container_path: str


@dataclass(frozen=True, slots=True)
class Security:
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    strict_groups: bool = False
    """Whether only these groups apply: the image's memberships do not count."""
    privileged: bool = False
    add_capabilities: tuple[str, ...] = ()
    drop_capabilities: tuple[str, ...] = ()
    no_new_privileges: bool = False
    read_only_root: bool = False
    seccomp: str = ""
    """"" (unconfined), "RuntimeDefault", or "Localhost/" and the name of a profile on the node."""
    apparmor: str = ""
    """"" (the runtime's choice), "RuntimeDefault", "Unconfined", or "Localhost/" and the name of a profile."""
    escalation: bool | None = None
    """allowPrivilegeEscalation, as in the spec."""
    unmasked_proc: bool = False


@dataclass(frozen=True, slots=True)
class PodConfig:
    uid: str
    name: str
    namespace: str
    qos: str
    """Guaranteed, Burstable or BestEffort: decides the parent of the pod's cgroup."""
    limits: Limits
    hostname: str
    log_folder: Path
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_process_namespace: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Stored by the runtime and returned by `pods`: enough for the agent to restore its pods after a restart."""
    resolv_conf: str = ""
    etc_hosts: str = ""
    host_ports: tuple[PortMapping, ...] = ()
    """Ports of the host that are forwarded to a pod with its own network."""
    sysctls: Mapping[str, str] = field(default_factory=dict)
    handler: str = ""
    """The RuntimeClass's handler: which of several runtimes runs the pod, and how. "" is the default."""
    security: Security = Security()
    """Applies to the pod as a whole; `privileged` if any container is."""


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    name: str
    attempt: int
    """0 for the first container of this name in the pod, then 1, 2 …"""
    image: str
    """The image as the pod names it."""
    command: tuple[str, ...]
    args: tuple[str, ...]
    environment: Mapping[str, str]
    working_dir: str
    mounts: tuple[Mount, ...]
    limits: Limits
    log_file: Path
    """Written in CRI's log format: `time stream F|P text`."""
    log_max_bytes: int = 10 << 20
    """The runtime starts a new file before one exceeds this size; negative: never."""
    log_max_files: int = 5
    """The number of log files, the current one included; the oldest are deleted."""
    oom_score_adj: int = 0
    tty: bool = False
    stdin: bool = False
    stdin_once: bool = False
    security: Security = Security()
    stop_signal: str = ""
    """The signal that stops it, such as SIGUSR1; "" is the image's, or SIGTERM."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    """The container of the pod whose pid namespace it joins."""
    devices: tuple[Device, ...] = ()
    image_id: str = ""
    """The result of `image_status` or `pull_image` for `image`: the container runs exactly this image. "" looks it
    up."""


class ImageState(Struct, frozen=True):
    """An image on this node."""

    id: str
    """`sha256:…`, the digest of its configuration."""
    tags: tuple[str, ...] = ()
    """`docker.io/library/nginx:1.25`."""
    digests: tuple[str, ...] = ()
    """`docker.io/library/nginx@sha256:…`, the names of the image in registries."""
    size_bytes: int = 0
    user: str = ""
    """The user as in the image's USER: "", "1000", "app", "app:staff"."""
    pinned: bool = False
    """Whether the image is never deleted to free disk space."""
    host_files: bool = False
    """Whether this is not an image: the container runs on the node's own files. Never pulled, whatever the policy."""


CREATED, RUNNING, EXITED = "created", "running", "exited"


class LinuxUser(Struct, frozen=True):
    """The user and groups of a container's first process."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    """All groups of the user, its primary group included."""


class Machine(Struct, frozen=True):
    """A runtime's report on a container that is a virtual machine. 0: not reported."""

    power: str = "Running"
    """Running, Paused, Suspended (to disk) or Shutdown. A VM that is off still counts as a running container."""
    boot_memory_mib: int = 0
    max_memory_mib: int = 0
    max_vcpus: int = 0
    slots: int = 0
    """The number of memory devices that can be plugged; 0 if memory is not plugged as devices."""
    offline_vcpus: int = 0
    """vCPUs that are plugged, but that the guest does not use."""


class ContainerState(Struct, frozen=True):
    id: str
    name: str
    attempt: int
    state: str
    """CREATED, RUNNING or EXITED."""
    image: str
    """The image as in the status: the runtime's full name for it."""
    image_id: str
    """The image's ID as in the status: a name with a digest, or the ID of an image that no registry has."""
    created_at: float
    started_at: float = 0.0
    finished_at: float = 0.0
    exit_code: int = 0
    reason: str = ""
    """Completed, Error, OOMKilled, ContainerCannotRun …"""
    message: str = ""
    pid: int = 0
    limits: Limits = Limits()
    """The limits as configured; the actual values are read with `container_limits`."""
    annotations: Mapping[str, str] = {}
    user: LinuxUser | None = None
    """The user of the first process; None if the runtime does not know it."""
    warning: str = ""
    """A message to users that the spec does not show; an Event when the container is created."""
    machine: Machine | None = None
    """The virtual machine's state, if the container is one."""


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
class RuntimeEvent:
    """A change of a container or a pod: the agent reads its state again.

    `kind`: started, exited, oom, pod-gone, confirmed (see `Runtime.update_all`), refused (the values were restored), or
    found: a pod that the agent did not know to exist, for example because the response to its creation was lost.
    """

    kind: str
    pod_uid: str
    container_id: str = ""


class Handler(Struct, frozen=True):
    """A way of running pods, by its name in a RuntimeClass; "" is the default."""

    name: str
    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False


def no_machine(container_id: str) -> RuntimeFailure:
    return RuntimeFailure(f"container {container_id} is not a virtual machine")


def no_handler(name: str) -> RuntimeFailure:
    return RuntimeFailure(f'failed to get sandbox runtime: no runtime for "{name}" is configured')
