"""Creates a cgroup in every hierarchy for the pods of one kubelet: two kubelets on one machine would kill each other's
pods.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def hierarchies() -> list[Path]:
    """The mount points of cgroups: each hierarchy of version 1, and that of version 2."""
    rows = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    places = [Path(row[1]) for row in rows if row[2] in ("cgroup", "cgroup2")]
    return list(dict.fromkeys(place for place in places if os.access(place, os.W_OK)))


def make(name: str) -> None:
    for place in hierarchies():
        folder = place / name
        with suppress(OSError):
            folder.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            # In version 1 no process can be added to a cpuset while these are empty.
            if (folder / file).exists() and not (folder / file).read_text().strip():
                (folder / file).write_text((place / file).read_text())


def remove(name: str) -> None:
    for place in hierarchies():
        for folder, _, _ in os.walk(place / name, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)
