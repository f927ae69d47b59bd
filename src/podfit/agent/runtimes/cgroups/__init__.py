"""What runtimes ask of the kernel's control groups, whichever version is mounted, and which one that is.

A group is named by its path below the hierarchy's root, as in `/podfit/burstable/pod1234/5678`. Writes go through
os.open and os.write, so that the kernel's errno is an exception and not lost in a buffer. The two versions differ in
their files (v1.py, v2.py) and in one thing that matters: v1 refuses a memory limit below usage, v2
takes it and kills.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from podfit.agent.runtimes.values import Change, Limits, NotFound, RuntimeFailure, Usage, WriteRefused

_OPTIONAL = ("memory.memsw.limit_in_bytes", "memory.swap.max", "memory.reclaim")
"""Files that kernels may lack: their absence says nothing about the group."""
QOS_FOLDERS = {"Guaranteed": "", "Burstable": "/burstable", "BestEffort": "/besteffort"}


class Cgroups(Protocol):
    version: int

    def create(self, group: str, limits: Limits) -> None:
        """Makes the group and its missing parents, and writes the limits. Fine if it exists."""

    def confine_devices(self, group: str) -> bool:
        """Lets members open harmless devices only; False where this machine has no means to."""

    def container_files(self, pod_group: str) -> dict[str, str]:
        """What every container of a pod has in its cgroup beside its limits: values by file."""

    def note_shares(self, group: str, shares: int) -> None:
        """Remembers the shares that another program made a group with, unless there is a note already: the
        kernel's own form may be coarser."""

    def exists(self, group: str) -> bool: ...

    def write(self, group: str, change: Change) -> None:
        """In the order the kernel wants; BelowUsage if memory does not fit, with nothing changed."""

    def limits(self, group: str) -> Limits: ...

    def usage(self, group: str) -> Usage: ...

    def held_memory(self, group: str) -> int:
        """Usage without what the kernel could take back by itself (page cache)."""

    def memory_stall(self, group: str) -> int | None:
        """Microseconds that members have waited for memory, ever; None where the kernel does not count."""

    def hold(self, group: str, threshold: int | None) -> None:
        """Holds the group back instead of letting it run out of memory: above the threshold (v2), or at its limit (v1);
        None lifts that."""

    def join_files(self, group: str) -> list[str]:
        """Where a process writes 0 to become a member."""

    def expect_cpusets(self) -> None:
        """Another program may restrict the CPUs of groups: `limits` reads each."""

    def pin_files(self, group: str) -> list[str]:
        """The same for hierarchies that have the group only if its CPUs are restricted."""

    def views(self, group: str) -> dict[str, str]:
        """What a container is shown at /sys/fs/cgroup: name → folder; v2 has one, named ""."""

    def oom_file(self, group: str) -> str:
        """The file with a line `oom_kill N`."""

    def procs_file(self, group: str) -> str: ...

    def kill_all(self, group: str) -> None:
        """SIGKILL to every member, also of groups below, none of which can fork away."""

    def below(self, group: str) -> list[str]:
        """All groups below, parents first."""

    def remove(self, group: str) -> bool:
        """Removes the group and those below; False if a member is still dying."""

    def oom_eventfd(self, group: str) -> int | None:
        """A descriptor that becomes readable when the group runs out of memory; None: use inotify on `oom_file`."""

    def usage_eventfd(self, group: str, threshold: int) -> int | None:
        """A descriptor that becomes readable when usage crosses the threshold; None if this kernel cannot notify."""


def pod_group(root: str, qos: str, uid: str) -> str:
    return f"{root}{QOS_FOLDERS[qos]}/pod{uid}"


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
    """A file of `name number` lines; {} if the kernel does not have it."""
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
    """Deepest first; a group with members answers EBUSY."""
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
    """Removes a group from every hierarchy of the machine, also those that only container runtimes use."""
    controllers, unified = mounted()
    points = {*controllers.values(), *((unified,) if unified else ())}
    gone = [remove_tree(point.rstrip("/") + group) for point in points]
    return all(gone)


class Vanished(NotFound):
    """A cgroup of ours is gone: another program removed it."""


def refused(error: OSError, group: str) -> RuntimeFailure:
    if error.errno in (errno.ENOENT, errno.ENODEV) and os.path.basename(str(error.filename or "")) not in _OPTIONAL:
        return Vanished(f"cgroup {group} is gone")
    return WriteRefused(group, f"{error.strerror} ({os.path.basename(str(error.filename or ''))})")


def guarded(group: str, work: Callable[[], None]) -> None:
    """Runs a write; what the kernel refuses becomes the runtime's failure, with the file's name in it."""
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


def detect() -> Cgroups:
    """The version that has cpu and memory here; v1 first, as on a hybrid machine v2 then has neither."""
    from podfit.agent.runtimes.cgroups.v1 import CgroupsV1
    from podfit.agent.runtimes.cgroups.v2 import CgroupsV2

    controllers, unified = mounted()
    if "cpu" in controllers and "memory" in controllers:
        return CgroupsV1(controllers)
    if unified:
        available = read(f"{unified}/cgroup.controllers").split()
        if "cpu" in available and "memory" in available:
            return CgroupsV2(unified)
    raise RuntimeFailure("no cgroup hierarchy with the cpu and memory controllers is mounted (looked for v1 and v2)")
