"""The cpusets of running containers in the kernel, which may differ from their current assignment."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from podfit.agent.cpus.decide.assign import Assignment
from podfit.agent.cpus.decide.sets import Cpus


class Placed(Struct, frozen=True):
    """The cpuset of a container in the kernel."""

    uid: str
    name: str
    cpus: Cpus
    exclusive: bool
    """Whether the container has these CPUs exclusively."""


class Placements(dict[str, Placed]):
    """By container id: containers that were created and have not been seen to exit."""

    def exclusive(self) -> Mapping[str, Assignment]:
        """The CPUs that containers have exclusively, by pod."""
        found: dict[str, dict[str, Cpus]] = {}
        for placed in self.values():
            if placed.exclusive:
                found.setdefault(placed.uid, {})[placed.name] = placed.cpus
        return found
