"""The settings of `podfit up`."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podfit.api.resize.dialects import NATIVE
from podfit.compose_runtimes import CONTAINERD

if TYPE_CHECKING:
    # Components are imported when they are built: an API server alone then needs half the time and memory to start.
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
    """The cluster's name in kubeconfigs."""
    vpa: bool = True
    vpa_flags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Command lines of the autoscaler's components: recommender, updater, admission."""
    node_port: int = 0
    insecure_registries: tuple[str, ...] = ()
    image_fallback: str = ""
    """The fallback for missing images: "host" for the node's own files, "" for none."""
    network: NetworkSettings | None = None
    """The pod network; None for the defaults."""
    pod_ranges: PodRanges | None = None
    """The range from which nodes get their pod ranges."""
    runtime_endpoint: str = CONTAINERD
    """The endpoint for --runtime cri."""
    runtime_endpoints: Mapping[str, str] = field(default_factory=dict)
    """Additional runtimes, by the RuntimeClass handler that selects them."""
    cgroup_root: str = ""
    vm: str = ""
    """"tcg" or "kvm": runs a VM runtime beside the agents, for pods of the RuntimeClass `vm`."""
    meter_resolution_s: float = 15.0
    """The interval at which container usage is read."""

    node_settings: Mapping[str, Any] = field(default_factory=dict)
    """Additional fields of the nodes' AgentConfig."""

    def node_names(self) -> list[str]:
        first = self.node_name or socket.gethostname().lower()
        if self.nodes == 1:
            return [first]
        return [f"{first}-{number}" for number in range(1, self.nodes + 1)]
