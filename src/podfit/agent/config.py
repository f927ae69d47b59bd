"""The configuration of an agent, from which all its components read their settings."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from podfit.agent.decide.node.images import ImagePolicy
from podfit.agent.decide.node.thresholds import DEFAULTS, Threshold
from podfit.agent.decide.resize.allocate import NodePolicy

if TYPE_CHECKING:
    from podfit.agent.cpus.decide.topology import Topology

DEFAULT_PORT = 10250


@dataclass(frozen=True)
class AgentConfig:
    node_name: str
    data_dir: Path
    capacity: Mapping[str, str] = field(default_factory=dict)
    """Overrides the machine's capacity (cpu, memory, ephemeral-storage, extended resources)."""
    reserved: Mapping[str, str] = field(default_factory=dict)
    """Reserved for the system: allocatable = capacity - reserved - kube_reserved."""
    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    """Reserved for the node's own agents."""
    reserved_cpus: str = ""
    """The CPUs that the static CPU policy keeps in the shared pool; "" picks as many as are reserved."""
    cpu_topology: Topology | None = None
    """Used instead of the topology of the machine's CPUs."""
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    """The flags that were set, for /configz."""
    max_pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    address: str = ""
    """The node's IP address, as reported in its status; "" for this machine's."""
    listen_address: str = ""
    """The listen address of the agent's server; "" for `address`."""
    hostname: str = ""
    port: int = DEFAULT_PORT
    """The port of the agent's server, published in daemonEndpoints."""
    policy: NodePolicy = field(default_factory=NodePolicy)
    cgroup_driver: str = "cgroupfs"
    durable: bool = True
    """Syncs the ledger to disk. Off only if losing it in a power failure does not matter (simulations, tests)."""
    lease_s: float = 10.0
    lease_duration_s: int = 40
    status_s: float = 300.0
    """The node's status is sent at least this often, and at once when it changes."""
    retry_s: float = 180.0
    """Deferred resizes are retried at least this often, in seconds, even if no resources were freed."""
    error_retry_s: float = 5.0
    """The first delay before a failed actuation is retried; it grows to a minute."""
    static_dir: Path | None = None
    register: bool = True
    deregister: bool = False
    """Deletes the Node on a clean shutdown."""
    log_max_bytes: int = 10 * 1024 * 1024
    """A container's log file is rotated before it grows beyond this; negative: never."""
    log_max_files: int = 5
    """Log files of a container, the current one included; at least 2."""
    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = "cluster.local"
    provider_id: str = ""
    api_server: str = ""
    """The URL at which pods of this node reach the API server; "" for the address of its Service."""
    on_disk: bool = True
    """Creates folders and log files for pods. Off for in-memory runtimes, where thousands of nodes share a process."""
    eviction_hard: tuple[Threshold, ...] = DEFAULTS
    """Eviction thresholds: below them the node is under pressure; under memory pressure it evicts pods."""
    image_policy: ImagePolicy = field(default_factory=ImagePolicy)
    """The policy by which unused images are deleted."""
    parallel_pulls: int = 4
    """Concurrent pulls per registry. A registry that stalls blocks only its own images."""
    range_wait_s: float = 0.0
    """The seconds that the first pods wait for the Node's podCIDR, if a controller is known to assign one."""
    most_pulls: int = 0
    """A limit on concurrent pulls from all registries together, instead of `parallel_pulls`; 0: no such limit."""
    refresh_s: float = 60.0
    """Mounted objects that cannot be watched, or were missing, are read again at this interval."""

    @property
    def host(self) -> str:
        return self.hostname or self.node_name

    @property
    def pods_dir(self) -> Path:
        return self.data_dir / "pods"

    @property
    def logs_dir(self) -> Path:
        return self.data_dir / "logs"

    @property
    def seccomp_dir(self) -> Path:
        """The folder of the profiles that pods name by `localhostProfile`."""
        return self.data_dir / "seccomp"


_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


def architecture() -> str:
    return _ARCHITECTURES.get(platform.machine(), platform.machine())
