"""System calls that Python 3.11 does not wrap, through libc: namespaces, mounts, capabilities.

Imported by the keeper, which must start quickly and stay small: nothing here may import more than ctypes and os.
"""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_MOVE, MS_REC = 4096, 8192, 16384
MS_PRIVATE, MS_SLAVE = 1 << 18, 1 << 19
MNT_DETACH = 2

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_NAME, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER = 24, 38, 15, 22, 36

_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

CAPABILITIES = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
]
"""The names of the capabilities; the index of each is its number in capabilities(7)."""

DEFAULT_CAPABILITIES = frozenset(
    [
        "CHOWN",
        "DAC_OVERRIDE",
        "FSETID",
        "FOWNER",
        "MKNOD",
        "NET_RAW",
        "SETGID",
        "SETUID",
        "SETFCAP",
        "SETPCAP",
        "NET_BIND_SERVICE",
        "SYS_CHROOT",
        "KILL",
        "AUDIT_WRITE",
    ]
)
"""The default capabilities of containers: the set that container engines agree on."""

# PyDLL keeps the interpreter lock: these calls are short, and releasing it has no benefit in a single thread.
libc = ctypes.PyDLL(None, use_errno=True)


def checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    checked(libc.unshare(flags), "unshare")


def setns(descriptor: int, flags: int) -> None:
    checked(libc.setns(descriptor, flags), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    result = libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        os.fsencode(data) or None,
    )
    checked(result, f"mount {source or kind} on {target}")


def unmount(target: str, flags: int = MNT_DETACH) -> None:
    checked(libc.umount2(os.fsencode(target), flags), f"unmount {target}")


def pivot_root(new: str, old: str) -> None:
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    checked(libc.syscall(number, os.fsencode(new), os.fsencode(old)), "pivot_root")


def prctl(option: int, value: int = 0, pointer: object = 0) -> None:
    checked(libc.prctl(option, ctypes.c_ulong(value), pointer, 0, 0), "prctl")


def set_name(name: str) -> None:
    libc.prctl(PR_SET_NAME, name.encode()[:15] + b"\0", 0, 0, 0)


def sethostname(name: str) -> None:
    raw = name.encode()[:64]
    checked(libc.sethostname(raw, ctypes.c_size_t(len(raw))), "sethostname")


def drop_bounding_set(keep: frozenset[str]) -> None:
    """Drops every capability not in `keep` permanently, also for setuid programs."""
    for number, name in enumerate(CAPABILITIES):
        if name not in keep:
            try:
                prctl(PR_CAPBSET_DROP, number)
            except OSError:
                # EINVAL: an older kernel that has fewer capabilities than the table.
                continue
