"""Reads, writes and removes files of the kernel's control groups, and translates the kernel's errors.

Writes go through os.open and os.write, so that the kernel's errno is raised and not lost in a buffer. Both versions
(v1.py, v2.py) build on this.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from podfit.agent.runtimes.values import NotFound, RuntimeFailure, WriteRefused

_OPTIONAL = ("memory.memsw.limit_in_bytes", "memory.swap.max", "memory.reclaim")
"""Files that some kernels lack: a group without them may still exist."""


def read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 65536).decode()
    finally:
        os.close(descriptor)


def write(path: str, value: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(descriptor)


def read_table(path: str) -> dict[str, int]:
    """A file of `name number` lines; {} if it does not exist."""
    try:
        return {name: int(value) for name, _, value in (row.partition(" ") for row in read(path).splitlines()) if value}
    except (FileNotFoundError, ValueError):
        return {}


def kill_members(procs_file: str) -> int:
    try:
        pids = [int(line) for line in read(procs_file).split()]
    except OSError:
        return 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)


def subgroups(path: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def tree(point: str, group: str) -> list[str]:
    found: list[str] = []
    for path in sorted(subgroups(point + group)):
        child = path.removeprefix(point)
        found += [child, *tree(point, child)]
    return found


def remove_tree(path: str) -> bool:
    """Removes the deepest groups first; a group with members answers EBUSY."""
    for child in subgroups(path):
        if not remove_tree(child):
            return False
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def remove_everywhere(group: str) -> bool:
    """Removes a group from every hierarchy of the machine, including those used only by container runtimes."""
    controllers, unified = mounted()
    points = {*controllers.values(), *((unified,) if unified else ())}
    gone = [remove_tree(point.rstrip("/") + group) for point in points]
    return all(gone)


class Vanished(NotFound):
    """A cgroup of this agent is gone: another program removed it."""


def refused(error: OSError, group: str) -> RuntimeFailure:
    if error.errno in (errno.ENOENT, errno.ENODEV) and os.path.basename(str(error.filename or "")) not in _OPTIONAL:
        return Vanished(f"cgroup {group} is gone")
    return WriteRefused(group, f"{error.strerror} ({os.path.basename(str(error.filename or ''))})")


def guarded(group: str, work: Callable[[], None]) -> None:
    """Runs a write; an error of the kernel becomes a runtime failure with the file's name."""
    try:
        work()
    except OSError as error:
        raise refused(error, group) from error


def now() -> float:
    return time.time()


def mounted() -> tuple[dict[str, str], str]:
    """v1's controllers and where they are mounted, and the mount point of v2 ("" if none)."""
    controllers: dict[str, str] = {}
    unified = ""
    try:
        rows = read("/proc/self/mountinfo").splitlines()
    except OSError:
        return {}, ""
    for row in rows:
        left, _, right = row.partition(" - ")
        point, (kind, _, options) = left.split()[4], right.split(" ", 2)
        if kind == "cgroup2":
            unified = unified or point
        elif kind == "cgroup":
            for option in options.split(","):
                controllers.setdefault(option, point)
    return controllers, unified
