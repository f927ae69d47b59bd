"""cgroup v1: one hierarchy per controller. The kernel refuses invalid values, so errno is the answer.

A child's quota above its parent's is EINVAL, a memory limit below unreclaimable usage is EBUSY: nothing changes. If
memory.memsw exists, it must never be below memory.limit: it is raised before and lowered after.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from podfit.agent.runtimes.cgroups.cpusets_v1 import CpusetsV1
from podfit.agent.runtimes.cgroups.devices import RULES_V1
from podfit.agent.runtimes.cgroups.files import (
    guarded,
    kill_members,
    now,
    read,
    read_table,
    refused,
    remove_tree,
    subgroups,
    tree,
    write,
)
from podfit.agent.runtimes.values import UNLIMITED, BelowUsage, Limits, LimitsChange, Usage

WANTED = ("cpu", "cpuacct", "memory", "pids", "freezer", "devices")
SHOWN = ("cpu", "cpuacct", "memory", "pids")
NO_LIMIT = (1 << 63) - 4096
"""memory.limit_in_bytes without a limit: the largest page counter."""


class CgroupsV1:
    version = 1

    def __init__(self, controllers: dict[str, str]) -> None:
        self._at = {name: controllers[name] for name in WANTED if name in controllers}
        self._cpu, self._memory = self._at["cpu"], self._at["memory"]
        self._cpusets = CpusetsV1(controllers.get("cpuset", ""))
        self._points = list(dict.fromkeys(self._at.values()))
        self._has_swap = os.path.exists(f"{self._memory}/memory.memsw.limit_in_bytes")

    def create(self, group: str, limits: Limits) -> None:
        def make() -> None:
            for point in self._points:
                os.makedirs(point + group, exist_ok=True)
            if limits.cpu_period_us != 100_000:
                write(f"{self._cpu}{group}/cpu.cfs_period_us", str(limits.cpu_period_us))

        guarded(group, make)
        self._cpusets.find(group)
        self.write(group, LimitsChange(limits.cpu_shares, limits.cpu_quota_us, limits.memory_bytes, limits.cpuset_cpus))

    def confine_devices(self, group: str) -> bool:
        if "devices" not in self._at:
            return False
        folder = self._at["devices"] + group
        try:
            write(f"{folder}/devices.deny", "a")
            for rule in RULES_V1:
                write(f"{folder}/devices.allow", rule)
        except OSError:
            return False
        return True

    def container_files(self, pod_group: str) -> dict[str, str]:
        return {}

    def note_shares(self, group: str, shares: int) -> None:
        """Nothing to do: the kernel stores shares exactly."""

    def exists(self, group: str) -> bool:
        return os.path.isdir(self._memory + group) and os.path.isdir(self._cpu + group)

    def write(self, group: str, change: LimitsChange) -> None:
        before = self._set_memory(group, change.memory_bytes) if change.memory_bytes is not None else None
        cpu = self._cpu + group
        try:
            if change.cpu_shares is not None:
                write(f"{cpu}/cpu.shares", str(change.cpu_shares))
            if change.cpu_quota_us is not None:
                write(f"{cpu}/cpu.cfs_quota_us", str(change.cpu_quota_us))
            if change.cpuset_cpus:
                self._cpusets.pin(group, change.cpuset_cpus, self.procs_file(group))
        except OSError as error:
            if before is not None:
                self._set_memory(group, before)
            raise refused(error, group) from error

    def _set_memory(self, group: str, wanted: int) -> int:
        """Sets the limit. Returns the previous value, which can be passed to this function again."""
        base = self._memory + group
        limit, swap = f"{base}/memory.limit_in_bytes", f"{base}/memory.memsw.limit_in_bytes"
        try:
            before = int(read(limit))
            growing = wanted == UNLIMITED or wanted >= before
            files = [limit] if not self._has_swap else [swap, limit] if growing else [limit, swap]
            for done, file in enumerate(files):
                try:
                    write(file, str(wanted))
                except OSError as error:
                    if done:
                        write(files[0], str(before))
                    if error.errno == errno.EBUSY:
                        raise BelowUsage(int(read(f"{base}/memory.usage_in_bytes")), wanted) from error
                    raise
        except OSError as error:
            raise refused(error, group) from error
        return UNLIMITED if before >= NO_LIMIT else before

    def limits(self, group: str) -> Limits:
        cpu = self._cpu + group
        try:
            quota, memory = (
                int(read(f"{cpu}/cpu.cfs_quota_us")),
                int(read(f"{self._memory}{group}/memory.limit_in_bytes")),
            )
            return Limits(
                cpu_shares=int(read(f"{cpu}/cpu.shares")),
                cpu_quota_us=None if quota < 0 else quota,
                memory_bytes=None if memory >= NO_LIMIT else memory,
                cpu_period_us=int(read(f"{cpu}/cpu.cfs_period_us")),
                cpuset_cpus=self._cpusets.cpus(group),
            )
        except OSError as error:
            raise refused(error, group) from error

    def usage(self, group: str) -> Usage:
        memory = self._memory + group
        try:
            used, stat = int(read(f"{memory}/memory.usage_in_bytes")), read_table(f"{memory}/memory.stat")
            nanos = int(read(f"{self._at['cpuacct']}{group}/cpuacct.usage")) if "cpuacct" in self._at else 0
        except OSError as error:
            raise refused(error, group) from error
        cpu = read_table(f"{self._cpu}{group}/cpu.stat")
        return Usage(
            at=now(),
            cpu_nanos=nanos,
            memory_bytes=used,
            working_set_bytes=max(0, used - stat.get("total_inactive_file", 0)),
            rss_bytes=stat.get("total_rss", 0),
            cache_bytes=stat.get("total_cache", 0),
            page_faults=stat.get("total_pgfault", 0),
            major_page_faults=stat.get("total_pgmajfault", 0),
            throttled_periods=cpu.get("nr_throttled", 0),
            periods=cpu.get("nr_periods", 0),
            throttled_nanos=cpu.get("throttled_time", 0),
            oom_kills=read_table(f"{memory}/memory.oom_control").get("oom_kill", 0),
            processes=self._processes(group),
        )

    def _processes(self, group: str) -> int:
        try:
            return int(read(f"{self._at['pids']}{group}/pids.current")) if "pids" in self._at else 0
        except OSError:
            return 0

    def held_memory(self, group: str) -> int:
        stat = read_table(f"{self._memory}{group}/memory.stat")
        used = int(read(f"{self._memory}{group}/memory.usage_in_bytes"))
        return max(0, used - stat.get("total_inactive_file", 0) - stat.get("total_active_file", 0))

    def join_files(self, group: str) -> list[str]:
        # `tasks`, not cgroup.procs: one thread that moves itself needs no lock on all processes of the machine (6 ms).
        return [f"{point}{group}/tasks" for point in self._points]

    def expect_cpusets(self) -> None:
        self._cpusets.expect()

    def pin_files(self, group: str) -> list[str]:
        return self._cpusets.files(group)

    def views(self, group: str) -> dict[str, str]:
        return {name: self._at[name] + group for name in SHOWN if name in self._at}

    def oom_file(self, group: str) -> str:
        return f"{self._memory}{group}/memory.oom_control"

    def procs_file(self, group: str) -> str:
        return f"{self._memory}{group}/cgroup.procs"

    def kill_all(self, group: str) -> None:
        frozen = f"{self._at['freezer']}{group}/freezer.state" if "freezer" in self._at else ""
        with suppress(OSError):
            if frozen:
                write(frozen, "FROZEN")
        self._kill(self._memory + group)
        with suppress(OSError):
            if frozen:
                write(frozen, "THAWED")

    def _kill(self, path: str) -> None:
        kill_members(f"{path}/cgroup.procs")
        for child in subgroups(path):
            self._kill(child)

    def below(self, group: str) -> list[str]:
        return tree(self._memory, group)

    def remove(self, group: str) -> bool:
        # Removes from the hierarchy that does not contain every group first: leftovers are found through the others.
        gone = [self._cpusets.remove(group), *(remove_tree(point + group) for point in self._points)]
        return all(gone)

    def oom_eventfd(self, group: str) -> int | None:
        return self._eventfd(group, "memory.oom_control", "")

    def memory_stall(self, group: str) -> int | None:
        return None

    def hold(self, group: str, threshold: int | None) -> None:
        """v1 cannot throttle below the limit. At the limit, its own or its pod's, members are paused instead of
        killed."""
        for path in (group, os.path.dirname(group)):
            with suppress(OSError):
                write(f"{self._memory}{path}/memory.oom_control", "0" if threshold is None else "1")

    def usage_eventfd(self, group: str, threshold: int) -> int | None:
        return self._eventfd(group, "memory.usage_in_bytes", str(threshold))

    def _eventfd(self, group: str, file: str, argument: str) -> int | None:
        base = self._memory + group
        event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            source = os.open(f"{base}/{file}", os.O_RDONLY | os.O_CLOEXEC)
            try:
                write(f"{base}/cgroup.event_control", f"{event} {source} {argument}".strip())
            finally:
                os.close(source)
        except OSError:
            os.close(event)
            return None
        return event
