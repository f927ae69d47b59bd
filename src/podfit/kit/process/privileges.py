"""The capabilities of this process. Root inside a container or a sandboxed VM often lacks some."""

from __future__ import annotations

CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_SYS_RESOURCE = 12, 21, 24


def has_capability(number: int) -> bool:
    with open("/proc/self/status") as status:
        held = next((int(line.split()[1], 16) for line in status if line.startswith("CapEff:")), 0)
    return bool(held >> number & 1)
