"""Checks the requirements of the pod network: a CNI configuration with its plugins, or those of the node's own
bridge."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from podfit.cli.checks import Finding, fail, ok, warn
from podfit.podnet.cni.config import NetworkConfig, load
from podfit.podnet.cni.plugins import find_plugin
from podfit.podnet.failures import NetworkFailure
from podfit.podnet.kernel.firewall import find_nft
from podfit.podnet.network import CNI_CONFIGURATIONS, CNI_PLUGINS
from podfit.podnet.support import missing_for_bridge

_NAME = "pod network"
INSTALL_PLUGINS = "install the plugins (apt install containernetworking-plugins)"


def pod_network(conf_dir: Path = CNI_CONFIGURATIONS, bin_dirs: Sequence[Path] = CNI_PLUGINS) -> Finding:
    try:
        found = load(conf_dir)
    except NetworkFailure as error:
        return fail(
            _NAME, str(error), "correct the file, or remove it to use podfit's own bridge: pods wait until then"
        )
    if found is not None:
        return _by_cni(found, conf_dir, bin_dirs)
    if missing := missing_for_bridge():
        advice = "run as root and install nftables for an address for every pod"
        return warn(_NAME, f"pods share the host's network: {'; '.join(missing)}", advice)
    if _drops_forwarded():
        advice = "allow podfit's bridges: iptables -I FORWARD -i podfit-+ -j ACCEPT, and the same with -o"
        return warn(_NAME, "the firewall drops forwarded packets: pods do not reach other machines", advice)
    return ok(_NAME, "a bridge of podfit's own")


def _by_cni(found: NetworkConfig, conf_dir: Path, bin_dirs: Sequence[Path]) -> Finding:
    kinds = [str(plugin["type"]) for plugin in found.plugins]
    kinds += [str(plugin["ipam"]["type"]) for plugin in found.plugins if (plugin.get("ipam") or {}).get("type")]
    if lacking := missing_plugin(kinds, bin_dirs):
        return fail(_NAME, f"CNI: {lacking}", f"{INSTALL_PLUGINS}, or use --cni-bin-dir")
    return ok(_NAME, f"CNI network {found.name} of {conf_dir} ({', '.join(kinds)})")


def missing_plugin(kinds: Sequence[str], bin_dirs: Sequence[Path]) -> str:
    """The reason why one of these plugins is unusable; "" if all are usable."""
    try:
        for kind in kinds:
            find_plugin(kind, bin_dirs)
    except NetworkFailure as error:
        return str(error)
    return ""


def _drops_forwarded() -> bool:
    words = [find_nft(), "list", "chain", "ip", "filter", "FORWARD"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)
    return "policy drop" in done.stdout
