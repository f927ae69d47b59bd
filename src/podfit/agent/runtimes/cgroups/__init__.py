"""The interface to the kernel's control groups, for v1 and v2, and the detection of the mounted version.

A group is identified by its path below the hierarchy's root, as in `/podfit/burstable/pod1234/5678`. The versions
differ in their files (v1.py, v2.py) and in one important point: v1 refuses a memory limit below usage, v2 accepts it
and kills.
"""

from __future__ import annotations

from typing import Protocol

from podfit.agent.runtimes.cgroups.files import mounted, read
from podfit.agent.runtimes.cgroups.v1 import CgroupsV1
from podfit.agent.runtimes.cgroups.v2 import CgroupsV2
from podfit.agent.runtimes.values import Limits, LimitsChange, RuntimeFailure, Usage

QOS_FOLDERS = {"Guaranteed": "", "Burstable": "/burstable", "BestEffort": "/besteffort"}


class Cgroups(Protocol):
    version: int

    def create(self, group: str, limits: Limits) -> None:
        """Creates the group and its missing parents, and writes the limits. Idempotent."""

    def confine_devices(self, group: str) -> bool:
        """Restricts members to harmless devices; False if this machine does not support it."""

    def container_files(self, pod_group: str) -> dict[str, str]:
        """The files with the same content in the cgroup of every container of a pod: values by file."""

    def note_shares(self, group: str, shares: int) -> None:
        """Records the shares with which another program created a group, unless they are recorded already: the kernel's
        representation may be coarser."""

    def exists(self, group: str) -> bool: ...

    def write(self, group: str, change: LimitsChange) -> None:
        """Writes the limits in the order the kernel needs. Raises BelowUsage, with nothing changed, if the memory limit
        is below usage."""

    def limits(self, group: str) -> Limits: ...

    def usage(self, group: str) -> Usage: ...

    def held_memory(self, group: str) -> int:
        """Memory usage without memory that the kernel can reclaim (page cache)."""

    def memory_stall(self, group: str) -> int | None:
        """Microseconds that members have stalled on memory; None if the kernel does not count them."""

    def hold(self, group: str, threshold: int | None) -> None:
        """Throttles the group instead of letting it run out of memory: above the threshold (v2), or at its limit (v1).
        None removes the threshold."""

    def join_files(self, group: str) -> list[str]:
        """Files to which a process writes 0 to join the group."""

    def expect_cpusets(self) -> None:
        """Announces that another program may restrict the CPUs of groups: from now on `limits` reads them."""

    def pin_files(self, group: str) -> list[str]:
        """Like `join_files`, for hierarchies that contain the group only if its CPUs are restricted."""

    def views(self, group: str) -> dict[str, str]:
        """The folders mounted at /sys/fs/cgroup in a container, by name; v2 has a single one, named ""."""

    def oom_file(self, group: str) -> str:
        """The file with the line `oom_kill N`."""

    def procs_file(self, group: str) -> str: ...

    def kill_all(self, group: str) -> None:
        """Sends SIGKILL to all members, also of groups below; none can fork and escape it."""

    def below(self, group: str) -> list[str]:
        """All groups below, parents first."""

    def remove(self, group: str) -> bool:
        """Removes the group and those below; False if a member is still exiting."""

    def oom_eventfd(self, group: str) -> int | None:
        """A descriptor that becomes readable when the group runs out of memory; None: use inotify on `oom_file`."""

    def usage_eventfd(self, group: str, threshold: int) -> int | None:
        """A descriptor that becomes readable when usage crosses the threshold; None if this kernel cannot notify."""


def pod_group(root: str, qos: str, uid: str) -> str:
    return f"{root}{QOS_FOLDERS[qos]}/pod{uid}"


def detect() -> Cgroups:
    """The version that has the cpu and memory controllers. v1 is tried first, because on a hybrid machine v2 has
    neither."""
    controllers, unified = mounted()
    if "cpu" in controllers and "memory" in controllers:
        return CgroupsV1(controllers)
    if unified:
        available = read(f"{unified}/cgroup.controllers").split()
        if "cpu" in available and "memory" in available:
            return CgroupsV2(unified)
    raise RuntimeFailure("no cgroup hierarchy with the cpu and memory controllers is mounted (looked for v1 and v2)")
