"""What `podfit up` is started with."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podfit.api.resize.dialects import NATIVE
from podfit.compose_runtimes import CONTAINERD

if TYPE_CHECKING:
    # A process loads the parts it runs, when it builds them: the API server alone starts in half the time and memory.
    from podfit.controllers.nodes.blocks import PodRanges
    from podfit.podnet.network import NetworkSettings
    from podfit.scheduler import SchedulerConfig


@dataclass(frozen=True)
class UpOptions:
    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 0
    store: str = "sqlite"
    runtime: str = "process"
    nodes: int = 1
    node_name: str = ""
    node_capacity: Mapping[str, str] = field(default_factory=dict)
    enable_admission: tuple[str, ...] = ()
    disable_admission: tuple[str, ...] = ()
    kubeconfig: Path | None = None
    stop_pods: bool = False
    extra_sans: tuple[str, ...] = ()
    token_file: Path | None = None
    in_flight: tuple[int, int] = (400, 200)
    resize_dialect: str = NATIVE
    controllers: bool = True
    scheduler: bool = True
    scheduling: SchedulerConfig | None = None
    context: str = "podfit"
    """What kubeconfigs call the cluster."""
    vpa: bool = True
    vpa_flags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Command lines of the autoscaler's components: recommender, updater, admission."""
    node_port: int = 0
    insecure_registries: tuple[str, ...] = ()
    image_fallback: str = ""
    """What images that are absent run on: "host" for the node's own files, "" for nothing."""
    network: NetworkSettings | None = None
    """How pods are connected; None for the defaults."""
    pod_ranges: PodRanges | None = None
    """What nodes get their pod ranges from."""
    runtime_endpoint: str = CONTAINERD
    """Of --runtime cri."""
    runtime_endpoints: Mapping[str, str] = field(default_factory=dict)
    """Further runtimes, by the handler of the RuntimeClass that chooses them."""
    cgroup_root: str = ""
    vm: str = ""
    """"tcg" or "kvm": VMs run as pods of the RuntimeClass `vm`, in a VM runtime beside the agents."""
    meter_resolution_s: float = 15.0
    """How often what containers use is read."""

    node_settings: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the nodes' AgentConfig."""

    def node_names(self) -> list[str]:
        first = self.node_name or socket.gethostname().lower()
        if self.nodes == 1:
            return [first]
        return [f"{first}-{number}" for number in range(1, self.nodes + 1)]
