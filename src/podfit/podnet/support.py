"""Checks the machine's support for pod networks: unmet requirements, as sentences."""

from __future__ import annotations

import os

from podfit.kit.process.privileges import CAP_NET_ADMIN, CAP_SYS_ADMIN, has_capability
from podfit.podnet.kernel.firewall import find_nft


def missing_for_namespaces() -> list[str]:
    if not os.path.exists("/proc/self/ns/net"):
        return ["the kernel has no network namespaces"]
    names = {CAP_NET_ADMIN: "CAP_NET_ADMIN", CAP_SYS_ADMIN: "CAP_SYS_ADMIN"}
    return [f"root with {name} is needed" for number, name in names.items() if not has_capability(number)]


def missing_for_bridge() -> list[str]:
    return missing_for_namespaces() + ([] if find_nft() else ["nft is not installed (package nftables)"])
