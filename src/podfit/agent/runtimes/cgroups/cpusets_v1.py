"""Writes v1's cpuset hierarchy, which contains a group only if its CPUs are restricted.

A new group is empty and accepts no process until it has CPUs and memory nodes, so missing parents are created with
those of their own parent. A container that was running without restriction is moved in, process by process.
"""

from __future__ import annotations

import os
from contextlib import suppress

from podfit.agent.runtimes.cgroups.files import read, remove_tree, write
from podfit.agent.runtimes.values import WriteRefused

_FILES = ("cpuset.cpus", "cpuset.mems")
_MOVE_TRIES = 100


class CpusetsV1:
    def __init__(self, point: str) -> None:
        """`point`: where the hierarchy is mounted, "" if it is not."""
        self._point = point
        self._used = False

    def find(self, group: str) -> None:
        """Records that an earlier agent restricted CPUs below this group. Until then no file is read for it."""
        self._used = self._used or bool(self._point and os.path.isdir(self._point + group))

    def expect(self) -> None:
        self._used = bool(self._point)

    def pin(self, group: str, cpus: str, members_file: str) -> None:
        """`members_file` lists the processes of the group in another hierarchy."""
        if not self._point:
            raise WriteRefused(group, "the cpuset controller is not mounted")
        self._used = True
        path = self._point
        for part in group.strip("/").split("/"):
            parent, path = path, f"{path}/{part}"
            with suppress(FileExistsError):
                os.mkdir(path)
            for name in _FILES:
                if not read(f"{path}/{name}").strip():
                    write(f"{path}/{name}", read(f"{parent}/{name}").strip())
        write(f"{path}/cpuset.cpus", cpus)
        self._move(members_file, f"{path}/cgroup.procs")

    @staticmethod
    def _move(members_file: str, procs_file: str) -> None:
        """Moves the processes. Repeated, because a process may fork before it is moved."""
        for _ in range(_MOVE_TRIES):
            outside = set(read(members_file).split()) - set(read(procs_file).split())
            if not outside:
                return
            for pid in outside:
                with suppress(ProcessLookupError):
                    write(procs_file, pid)

    def cpus(self, group: str) -> str:
        """The group's CPUs. Empty if nothing is restricted."""
        if not self._used:
            return ""
        try:
            return read(f"{self._point}{group}/cpuset.cpus").strip()
        except FileNotFoundError:
            return ""

    def files(self, group: str) -> list[str]:
        return [f"{self._point}{group}/tasks"] if self._point else []

    def remove(self, group: str) -> bool:
        return not self._used or remove_tree(self._point + group)
