"""Finds out whether TCP ports in this network namespace are in use by given processes or by others."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTEN = "0A"


def taken_by_others(ports: Iterable[int], pid: int) -> tuple[list[int], list[int]]:
    """Of the given ports, those that only others listen on, and those that the process or a descendant listens on."""
    found = _listeners(set(ports))
    own = _sockets(pid) if found else set()
    mine = [port for port, sockets in found.items() if sockets & own]
    return sorted(set(found) - set(mine)), sorted(mine)


def _listeners(ports: set[int]) -> dict[int, set[str]]:
    """Inodes of the listening sockets by port; other ports are omitted."""
    found: dict[int, set[str]] = {}
    for table in _TABLES:
        try:
            rows = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            port = int(fields[1].rpartition(":")[2], 16)
            if fields[3] == _LISTEN and port in ports:
                found.setdefault(port, set()).add(fields[9])
    return found


def _sockets(pid: int) -> set[str]:
    """Inodes of all sockets of the process and its descendants; processes may exit while they are read."""
    found: set[str] = set()
    waiting = [pid]
    while waiting:
        current = waiting.pop()
        try:
            waiting += [
                int(child) for task in os.listdir(f"/proc/{current}/task") for child in _children(current, task)
            ]
            for descriptor in os.listdir(f"/proc/{current}/fd"):
                target = os.readlink(f"/proc/{current}/fd/{descriptor}")
                if target.startswith("socket:["):
                    found.add(target[8:-1])
        except OSError:
            continue
    return found


def _children(pid: int, task: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/task/{task}/children").read_text().split()
    except OSError:
        return []
