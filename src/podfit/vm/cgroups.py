"""Creates and writes the cgroup of a VM, in cgroup v1 and v2. QEMU runs in it from its first page on.

The memory limit is the guest's memory plus QEMU's own needs. In v1 a thread enters the group before it starts QEMU. v2
can move only whole processes, so QEMU is moved right after its start.
"""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from podfit.vm.decide.sizes import DEFAULT_PERIOD_US, Limits

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "pids")


@dataclass(frozen=True)
class Usage:
    cpu_nanos: int = 0
    memory_bytes: int = 0
    rss_bytes: int = 0
    oom_kills: int = 0


class Cgroups:
    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self.v2 = (root / "cgroup.controllers").exists()
        found = ("",) if self.v2 else CONTROLLERS
        self._at = {name: root / name for name in found if (root / name).is_dir()}

    def _file(self, controller: str, group: str, name: str) -> Path | None:
        point = self._at.get("" if self.v2 else controller)
        return None if point is None else point / group.lstrip("/") / name

    def create(self, group: str) -> None:
        for controller, point in self._at.items():
            folder = point / group.lstrip("/")
            folder.mkdir(parents=True, exist_ok=True)
            if self.v2:
                _delegate(self._root, folder)
            elif controller == "cpuset":
                _inherit_cpuset(point, folder)

    def remove(self, group: str) -> None:
        for point in self._at.values():
            with suppress(OSError):
                (point / group.lstrip("/")).rmdir()

    def exists(self, group: str) -> bool:
        return all((point / group.lstrip("/")).is_dir() for point in self._at.values())

    def enter(self, group: str) -> None:
        """Moves the calling thread into the group; cgroup v1 only."""
        if not self.v2:
            self._move(group, "tasks", threading.get_native_id())

    def leave(self, group: str) -> None:
        """Moves every thread of this process back to the process's own group: libvirt starts threads of its own along
        with QEMU, and they would stay in the VM's group, prevent its removal, and be killed with it."""
        if self.v2:
            return
        own = set(os.listdir("/proc/self/task"))
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            for name in names.split(","):
                if name not in self._at:
                    continue
                inside = (self._at[name] / group.lstrip("/") / "tasks").read_text().split()
                for thread in own.intersection(inside):
                    with suppress(OSError):
                        _write(self._at[name] / path.lstrip("/") / "tasks", thread)

    def adopt(self, group: str, pid: int) -> None:
        """Moves a process with all of its threads and, in cgroup v1, the memory it has used so far."""
        with suppress(OSError):
            self._put(group, "memory", "memory.move_charge_at_immigrate", "3")
        self._move(group, "cgroup.procs", pid)

    def _move(self, group: str, name: str, number: int) -> None:
        for point in self._at.values():
            _write(point / group.lstrip("/") / name, number)

    def write(self, group: str, limits: Limits, memory_bytes: int) -> None:
        """Applies the limits; memory_bytes includes the guest's memory and QEMU's overhead. Raises OSError."""
        period = limits.cpu_period or DEFAULT_PERIOD_US
        quota = limits.cpu_quota if limits.cpu_quota > 0 else -1
        if self.v2:
            self._put(group, "cpu", "cpu.max", f"{'max' if quota < 0 else quota} {period}")
            if limits.cpu_shares:
                self._put(group, "cpu", "cpu.weight", str(1 + (limits.cpu_shares - 2) * 9999 // 262142))
            self._make_room(group, memory_bytes)
            self._put(group, "memory", "memory.max", str(memory_bytes))
        else:
            self._put(group, "cpu", "cpu.cfs_period_us", str(period))
            self._put(group, "cpu", "cpu.cfs_quota_us", str(quota))
            if limits.cpu_shares:
                self._put(group, "cpu", "cpu.shares", str(limits.cpu_shares))
            self._put(group, "memory", "memory.limit_in_bytes", str(memory_bytes))
        if limits.cpuset_cpus:
            self._put(group, "cpuset", "cpuset.cpus", limits.cpuset_cpus)
        if limits.cpuset_mems:
            self._put(group, "cpuset", "cpuset.mems", limits.cpuset_mems)

    def _make_room(self, group: str, memory_bytes: int) -> None:
        """Reclaims memory before the limit is lowered. v2 accepts a limit below usage and then kills; v1 refuses it,
        and so does this function, which raises OSError."""
        above = self._number(group, "memory.current") - memory_bytes
        if above > 0:
            with suppress(OSError):
                self._put(group, "memory", "memory.reclaim", str(above))
            if self._number(group, "memory.current") > memory_bytes:
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), f"{group}/memory.max")

    def memory_limit(self, group: str) -> int | None:
        file = self._file("memory", group, "memory.max" if self.v2 else "memory.limit_in_bytes")
        with suppress(OSError, ValueError):
            return int(file.read_text()) if file is not None else None
        return None

    def usage(self, group: str) -> Usage:
        if self.v2:
            cpu = _table(self._file("cpu", group, "cpu.stat")).get("usage_usec", 0) * 1000
            memory, stat = self._number(group, "memory.current"), _table(self._file("memory", group, "memory.stat"))
            kills = _table(self._file("memory", group, "memory.events")).get("oom_kill", 0)
            return Usage(cpu, memory, stat.get("anon", 0), kills)
        used = self._file("cpuacct", group, "cpuacct.usage")
        stat = _table(self._file("memory", group, "memory.stat"))
        kills = _table(self._file("memory", group, "memory.oom_control")).get("oom_kill", 0)
        return Usage(_int(used), self._number(group, "memory.usage_in_bytes"), stat.get("total_rss", 0), kills)

    def _number(self, group: str, name: str) -> int:
        return _int(self._file("memory", group, name))

    def _put(self, group: str, controller: str, name: str, value: str) -> None:
        file = self._file(controller, group, name)
        if file is not None and file.parent.is_dir():
            _write(file, value)


def _write(path: Path, value: object) -> None:
    # Not written with write_text, because the kernel's error must be raised here and not at close.
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)


def _int(path: Path | None) -> int:
    with suppress(OSError, ValueError):
        return int(path.read_text()) if path is not None else 0
    return 0


def _table(path: Path | None) -> dict[str, int]:
    with suppress(OSError):
        rows = (line.split() for line in (path.read_text() if path is not None else "").splitlines())
        return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
    return {}


def _delegate(root: Path, folder: Path) -> None:
    """Enables the controllers for every group on the path."""
    for parent in reversed([path for path in folder.parents if path == root or root in path.parents]):
        for controller in ("cpu", "memory", "cpuset", "pids"):
            with suppress(OSError):
                _write(parent / "cgroup.subtree_control", f"+{controller}")


def _inherit_cpuset(point: Path, folder: Path) -> None:
    """A new cpuset of v1 is empty, and nothing can run in it until it is filled."""
    for path in reversed([folder, *(path for path in folder.parents if point in path.parents)]):
        for name in ("cpuset.cpus", "cpuset.mems"):
            if not (path / name).read_text().strip():
                _write(path / name, (path.parent / name).read_text().strip())
