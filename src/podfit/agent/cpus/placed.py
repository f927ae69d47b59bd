"""The CPUs that running containers have in the kernel, which may differ from what is assigned by now."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from podfit.agent.cpus.decide.assign import Assignment
from podfit.agent.cpus.decide.sets import Cpus


class Placed(Struct, frozen=True):
    """The CPUs that a container has in the kernel."""

    uid: str
    name: str
    cpus: Cpus
    exclusive: bool
    """Whether it has them to itself."""


class Placements(dict[str, Placed]):
    """By container id; those that were created and have not been seen to end."""

    def exclusive(self) -> Mapping[str, Assignment]:
        """By pod: the CPUs that containers have to themselves."""
        found: dict[str, dict[str, Cpus]] = {}
        for placed in self.values():
            if placed.exclusive:
                found.setdefault(placed.uid, {})[placed.name] = placed.cpus
        return found
