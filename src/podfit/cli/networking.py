"""The options for the network of pods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from podfit.podnet.network import NetworkSettings

PodNetworkMode = Annotated[
    str,
    typer.Option(
        "--pod-network", help="auto, bridge (own address behind NAT), cni, or host (pods share the host's network)."
    ),
]
CniConfDir = Annotated[Path | None, typer.Option("--cni-conf-dir", help="CNI configurations; default /etc/cni/net.d.")]
CniBinDir = Annotated[
    str, typer.Option("--cni-bin-dir", metavar="A,B", help="CNI plugins; default /opt/cni/bin,/usr/lib/cni.")
]


def network_settings(mode: str, conf_dir: Path | None, bin_dirs: str) -> NetworkSettings:
    from podfit.compose import BadSetting
    from podfit.podnet.network import CNI_CONFIGURATIONS, CNI_PLUGINS, MODES, NetworkSettings

    if mode not in MODES:
        raise BadSetting(f"--pod-network {mode!r}: it is one of {', '.join(MODES)}")
    folders = tuple(Path(part.strip()).absolute() for part in bin_dirs.split(",") if part.strip())
    return NetworkSettings(mode, (conf_dir or CNI_CONFIGURATIONS).absolute(), folders or CNI_PLUGINS)
