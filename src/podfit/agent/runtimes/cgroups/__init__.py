"""What runtimes ask of the kernel's control groups, whichever version is mounted, and which one that is.

A group is named by its path below the hierarchy's root, as in `/podfit/burstable/pod1234/5678`. The two versions differ
in their files (v1.py, v2.py) and in one thing that matters: v1 refuses a memory limit below usage, v2 accepts it and
kills.
"""

from __future__ import annotations

from typing import Protocol

from podfit.agent.runtimes.cgroups.files import mounted, read
from podfit.agent.runtimes.cgroups.v1 import CgroupsV1
from podfit.agent.runtimes.cgroups.v2 import CgroupsV2
from podfit.agent.runtimes.values import Change, Limits, RuntimeFailure, Usage

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


def detect() -> Cgroups:
    """The version that has cpu and memory here; v1 first, as on a hybrid machine v2 then has neither."""
    controllers, unified = mounted()
    if "cpu" in controllers and "memory" in controllers:
        return CgroupsV1(controllers)
    if unified:
        available = read(f"{unified}/cgroup.controllers").split()
        if "cpu" in available and "memory" in available:
            return CgroupsV2(unified)
    raise RuntimeFailure("no cgroup hierarchy with the cpu and memory controllers is mounted (looked for v1 and v2)")
