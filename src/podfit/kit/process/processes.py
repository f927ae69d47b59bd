"""Reads the machine's processes from /proc. Processes of other users are visible to root only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_LISTEN = "0A"


def all_pids() -> list[int]:
    return sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit())


def open_files(pid: int) -> Iterator[str]:
    """The targets of a process's descriptors: paths, or `socket:[INODE]` and the like."""
    folder = f"/proc/{pid}/fd"
    try:
        descriptors = os.listdir(folder)
    except OSError:
        return
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            yield os.readlink(f"{folder}/{descriptor}")


def listener(port: int) -> int | None:
    """The pid of the process that listens on a TCP port."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    if not sockets:
        return None
    return next((pid for pid in all_pids() if any(file in sockets for file in open_files(pid))), None)


def _listening(port: int) -> Iterator[str]:
    """Inodes of the sockets. For the fields see the kernel's Documentation/networking/proc_net_tcp.rst."""
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]


def program(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
