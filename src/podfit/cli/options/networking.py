"""The options for the pod network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from podfit.controllers.nodes.blocks import PodRanges
    from podfit.podnet.network import NetworkSettings

PodNetworkMode = Annotated[
    str,
    typer.Option(
        "--pod-network",
        help="auto, bridge (each pod has its own address, behind NAT), cni or host (pods share the host's network).",
    ),
]
CniConfDir = Annotated[
    Path | None, typer.Option("--cni-conf-dir", help="The folder with CNI configurations; default /etc/cni/net.d.")
]
CniBinDir = Annotated[
    str,
    typer.Option(
        "--cni-bin-dir", metavar="A,B", help="The folders with CNI plugins; default /opt/cni/bin,/usr/lib/cni."
    ),
]
ClusterCidr = Annotated[
    str,
    typer.Option(
        "--cluster-cidr",
        metavar="CIDR[,CIDR]",
        help="The range from which each node gets a subnet for its pods (podCIDR).",
    ),
]
AllocateNodeCidrs = Annotated[
    bool, typer.Option("--allocate-node-cidrs", help="Allocate each node a subnet of --cluster-cidr for its pods.")
]
NodeMask = Annotated[
    int, typer.Option("--node-cidr-mask-size", help="The prefix length of a node's subnet; default 24, for IPv6 64.")
]
NodeMask4 = Annotated[
    int, typer.Option("--node-cidr-mask-size-ipv4", help="The prefix length for IPv4 in a dual-stack cluster.")
]
NodeMask6 = Annotated[
    int, typer.Option("--node-cidr-mask-size-ipv6", help="The prefix length for IPv6 in a dual-stack cluster.")
]


def pod_ranges(cluster_cidr: str, mask: int, mask_ipv4: int = 0, mask_ipv6: int = 0) -> PodRanges:
    from podfit.compose import BadSetting
    from podfit.controllers.nodes.blocks import BadRange, PodRanges, blocks_of

    settings = PodRanges(cluster_cidr, mask, mask_ipv4, mask_ipv6)
    try:
        blocks_of(settings)
    except BadRange as error:
        raise BadSetting(f"--cluster-cidr {cluster_cidr!r}: {error}") from error
    return settings


def network_settings(mode: str, conf_dir: Path | None, bin_dirs: str) -> NetworkSettings:
    from podfit.compose import BadSetting
    from podfit.podnet.network import CNI_CONFIGURATIONS, CNI_PLUGINS, MODES, NetworkSettings

    if mode not in MODES:
        raise BadSetting(f"--pod-network {mode!r}: it is one of {', '.join(MODES)}")
    folders = tuple(Path(part.strip()).absolute() for part in bin_dirs.split(",") if part.strip())
    return NetworkSettings(mode, (conf_dir or CNI_CONFIGURATIONS).absolute(), folders or CNI_PLUGINS)
