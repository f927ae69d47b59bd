"""Decides which kernel parameters a pod may set: those that belong to its own namespaces and affect no other pod. Pure.

The list is that of a kubelet without allowed unsafe sysctls; every supported kernel has all of them.
"""

from __future__ import annotations

from podfit.api.objects import Object

REASON = "SysctlForbidden"
_SAFE = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)


def refusal(pod: Object) -> tuple[str, str] | None:
    """The reason and message, as in a kubelet, with which the pod is rejected."""
    spec = pod["spec"]
    for sysctl in (spec.get("securityContext") or {}).get("sysctls") or ():
        name = normalized(str(sysctl["name"]))
        why = ""
        if name not in _SAFE:
            why = f'"{name}" not allowlisted'
        elif name.startswith("net.") and spec.get("hostNetwork"):
            why = f'"{name}" not allowed with host Net enabled'
        elif name.startswith("kernel.") and spec.get("hostIPC"):
            why = f'"{name}" not allowed with host IPC enabled'
        if why:
            return REASON, f"forbidden sysctl: {why}"
    return None


def normalized(name: str) -> str:
    """The parameter's name separated by dots: if a slash comes first, dots and slashes are swapped."""
    dot, slash = name.find("."), name.find("/")
    if slash < 0 or (0 <= dot < slash):
        return name
    return name.translate(str.maketrans("./", "/."))
