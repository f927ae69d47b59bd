"""cgroup v2: one tree, controllers enabled through cgroup.subtree_control.

The kernel accepts memory.max below usage and then kills: so before a decrease, memory.high stops growth and
memory.reclaim frees cache; then usage is read, and the limit is written only if it fits. CPU weight is coarser than
shares: the configured shares are stored as an attribute of the group itself, and so exist exactly as long as it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from podfit.agent.runtimes.cgroups.devices import confine_v2
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
from podfit.agent.runtimes.cgroups.weights import formula, shares_of, steeper_weight_of, weight_of
from podfit.agent.runtimes.values import UNLIMITED, BelowUsage, Limits, LimitsChange, Usage

SHARES_ATTRIBUTE = "trusted.podfit.cpu_shares"
CONTROLLERS = ("cpu", "memory", "pids")
PINNING = (*CONTROLLERS, "cpuset")
"""Controllers that are enabled for groups whose CPUs are restricted."""


class CgroupsV2:
    version = 2

    def __init__(self, point: str) -> None:
        self._point = point.rstrip("/")
        self._pinned = False
        """Whether the CPUs of any group are restricted. Until then no file is read for it."""

    def create(self, group: str, limits: Limits) -> None:
        guarded(group, lambda: self._make(group))
        if limits.cpu_period_us != 100_000:
            guarded(group, lambda: write(f"{self._point}{group}/cpu.max", f"max {limits.cpu_period_us}"))
        self._pinned = self._pinned or os.path.exists(f"{self._point}{group}/cpuset.cpus")
        self.write(group, LimitsChange(limits.cpu_shares, limits.cpu_quota_us, limits.memory_bytes, limits.cpuset_cpus))

    def _make(self, group: str) -> None:
        path = self._point
        for part in group.strip("/").split("/"):
            self._delegate(path)
            path = f"{path}/{part}"
            with suppress(FileExistsError):
                os.mkdir(path)
        if group.count("/") > 2 and not os.path.basename(group).startswith("pod"):
            for name, value in self.container_files(os.path.dirname(group)).items():
                with suppress(OSError):
                    write(f"{path}/{name}", value)

    def container_files(self, pod_group: str) -> dict[str, str]:
        # A container that runs out of memory is killed as a whole, and does not swap; kernels may not account swap.
        swap = os.path.exists(f"{self._point}{pod_group}/memory.swap.max")
        return {"memory.oom.group": "1", **({"memory.swap.max": "0"} if swap else {})}

    def _pin(self, group: str, cpus: str) -> None:
        self._pinned = True
        path = self._point
        for part in group.strip("/").split("/"):
            self._delegate(path, PINNING)
            path = f"{path}/{part}"
        write(f"{path}/cpuset.cpus", cpus)

    def _delegate(self, path: str, controllers: tuple[str, ...] = CONTROLLERS) -> None:
        available = read(f"{path}/cgroup.controllers").split()
        enabled = read(f"{path}/cgroup.subtree_control").split()
        missing = [f"+{name}" for name in controllers if name in available and name not in enabled]
        if missing:
            write(f"{path}/cgroup.subtree_control", " ".join(missing))

    def confine_devices(self, group: str) -> bool:
        try:
            confine_v2(self._point + group)
        except OSError:
            return False
        return True

    def note_shares(self, group: str, shares: int) -> None:
        with suppress(OSError):
            os.setxattr(self._point + group, SHARES_ATTRIBUTE, str(shares).encode(), os.XATTR_CREATE)

    def exists(self, group: str) -> bool:
        return os.path.isdir(self._point + group)

    def write(self, group: str, change: LimitsChange) -> None:
        before = self._set_memory(group, change.memory_bytes) if change.memory_bytes is not None else None
        path = self._point + group
        try:
            if change.cpu_shares is not None:
                write(f"{path}/cpu.weight", str(self._formula(path)(change.cpu_shares)))
                with suppress(OSError):
                    os.setxattr(path, SHARES_ATTRIBUTE, str(change.cpu_shares).encode())
            if change.cpu_quota_us is not None:
                # A single number keeps the period.
                write(f"{path}/cpu.max", "max" if change.cpu_quota_us == UNLIMITED else str(change.cpu_quota_us))
            if change.cpuset_cpus:
                self._pin(group, change.cpuset_cpus)
        except OSError as error:
            if before is not None:
                self._set_memory(group, before)
            raise refused(error, group) from error

    def _set_memory(self, group: str, wanted: int) -> int:
        """Sets the limit. Returns the previous value, which can be passed to this function again."""
        path = self._point + group
        try:
            before = self._memory_max(path)
            if wanted == UNLIMITED or (before != UNLIMITED and wanted >= before):
                write(f"{path}/memory.max", "max" if wanted == UNLIMITED else str(wanted))
            else:
                self._squeeze(path, wanted)
        except OSError as error:
            raise refused(error, group) from error
        return before

    def _squeeze(self, path: str, wanted: int) -> None:
        high = read(f"{path}/memory.high").strip()
        write(f"{path}/memory.high", str(wanted))
        try:
            usage = self._reclaimed(path, wanted)
            if usage > wanted:
                raise BelowUsage(usage, wanted)
            write(f"{path}/memory.max", str(wanted))
        finally:
            write(f"{path}/memory.high", high)

    def _reclaimed(self, path: str, wanted: int) -> int:
        """Usage after the kernel was asked to reclaim the part above `wanted`."""
        usage = int(read(f"{path}/memory.current"))
        for _ in range(3):
            if usage <= wanted:
                break
            with suppress(OSError):
                # EAGAIN: less was reclaimed than requested; usage shows how much.
                write(f"{path}/memory.reclaim", str(usage - wanted))
            usage = int(read(f"{path}/memory.current"))
        return usage

    def _memory_max(self, path: str) -> int:
        text = read(f"{path}/memory.max").strip()
        return UNLIMITED if text == "max" else int(text)

    def limits(self, group: str) -> Limits:
        path = self._point + group
        try:
            quota, period = read(f"{path}/cpu.max").split()
            memory = self._memory_max(path)
            return Limits(
                cpu_shares=self._shares(path),
                cpu_quota_us=None if quota == "max" else int(quota),
                memory_bytes=None if memory == UNLIMITED else memory,
                cpu_period_us=int(period),
                cpuset_cpus=self._cpus(path) if self._pinned else "",
            )
        except OSError as error:
            raise refused(error, group) from error

    @staticmethod
    def _cpus(path: str) -> str:
        try:
            return read(f"{path}/cpuset.cpus").strip()
        except FileNotFoundError:
            return ""

    def _formula(self, path: str) -> Callable[[int], int]:
        """The formula that the program which created the group used: containers of one pod are weighted relative to
        each other."""
        try:
            configured, weight = int(os.getxattr(path, SHARES_ATTRIBUTE)), int(read(f"{path}/cpu.weight"))
        except (OSError, ValueError):
            return weight_of
        return formula(configured, weight)

    def _shares(self, path: str) -> int:
        weight = int(read(f"{path}/cpu.weight"))
        try:
            configured = int(os.getxattr(path, SHARES_ATTRIBUTE))
        except (OSError, ValueError):
            return shares_of(weight)
        # Another program may have written the weight since: then the kernel's value counts and the record is stale.
        known = weight in (weight_of(configured), steeper_weight_of(configured))
        return configured if known else shares_of(weight)

    def usage(self, group: str) -> Usage:
        path = self._point + group
        try:
            used = int(read(f"{path}/memory.current"))
        except OSError as error:
            raise refused(error, group) from error
        memory, cpu = read_table(f"{path}/memory.stat"), read_table(f"{path}/cpu.stat")
        return Usage(
            at=now(),
            cpu_nanos=cpu.get("usage_usec", 0) * 1000,
            memory_bytes=used,
            working_set_bytes=max(0, used - memory.get("inactive_file", 0)),
            rss_bytes=memory.get("anon", 0),
            cache_bytes=memory.get("file", 0),
            page_faults=memory.get("pgfault", 0),
            major_page_faults=memory.get("pgmajfault", 0),
            throttled_periods=cpu.get("nr_throttled", 0),
            periods=cpu.get("nr_periods", 0),
            throttled_nanos=cpu.get("throttled_usec", 0) * 1000,
            oom_kills=read_table(f"{path}/memory.events").get("oom_kill", 0),
            processes=self._processes(path),
        )

    def _processes(self, path: str) -> int:
        try:
            return int(read(f"{path}/pids.current"))
        except OSError:
            return 0

    def held_memory(self, group: str) -> int:
        path = self._point + group
        stat, used = read_table(f"{path}/memory.stat"), int(read(f"{path}/memory.current"))
        return max(0, used - stat.get("inactive_file", 0) - stat.get("active_file", 0))

    def memory_stall(self, group: str) -> int | None:
        """The total of the line `some … total=N` in memory.pressure."""
        try:
            some = read(f"{self._point}{group}/memory.pressure").split("\n", 1)[0]
        except OSError:
            return None
        total = some.rpartition("total=")[2]
        return int(total) if some.startswith("some") and total.isdigit() else None

    def hold(self, group: str, threshold: int | None) -> None:
        value = "max" if threshold is None else str(threshold)
        guarded(group, lambda: write(f"{self._point}{group}/memory.high", value))

    def join_files(self, group: str) -> list[str]:
        return [f"{self._point}{group}/cgroup.procs"]

    def expect_cpusets(self) -> None:
        self._pinned = True

    def pin_files(self, group: str) -> list[str]:
        return []

    def views(self, group: str) -> dict[str, str]:
        return {"": self._point + group}

    def oom_file(self, group: str) -> str:
        return f"{self._point}{group}/memory.events"

    def procs_file(self, group: str) -> str:
        return f"{self._point}{group}/cgroup.procs"

    def kill_all(self, group: str) -> None:
        try:
            write(f"{self._point}{group}/cgroup.kill", "1")
        except FileNotFoundError:
            # The kernel is older than Linux 5.14, or the group is gone.
            self._kill(self._point + group)

    def _kill(self, path: str) -> None:
        kill_members(f"{path}/cgroup.procs")
        for child in subgroups(path):
            self._kill(child)

    def below(self, group: str) -> list[str]:
        return tree(self._point, group)

    def remove(self, group: str) -> bool:
        return remove_tree(self._point + group)

    def oom_eventfd(self, group: str) -> int | None:
        return None

    def usage_eventfd(self, group: str, threshold: int) -> int | None:
        return None
