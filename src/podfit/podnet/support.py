"""What networks of pods need of the machine, as sentences; an empty list means that they can be made here."""

from __future__ import annotations

import os

from podfit.podnet.firewall import find_nft

_CAP_NET_ADMIN, _CAP_SYS_ADMIN = 12, 21


def missing_for_namespaces() -> list[str]:
    if not os.path.exists("/proc/self/ns/net"):
        return ["the kernel has no network namespaces"]
    held = _capabilities()
    names = {_CAP_NET_ADMIN: "CAP_NET_ADMIN", _CAP_SYS_ADMIN: "CAP_SYS_ADMIN"}
    return [f"root with {name} is needed" for number, name in names.items() if not held >> number & 1]


def missing_for_bridge() -> list[str]:
    return missing_for_namespaces() + ([] if find_nft() else ["nft is not installed (package nftables)"])


def _capabilities() -> int:
    with open("/proc/self/status") as status:
        return next((int(line.split()[1], 16) for line in status if line.startswith("CapEff:")), 0)
