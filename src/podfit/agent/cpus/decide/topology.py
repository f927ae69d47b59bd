"""The topology of a machine's CPUs: threads in cores, cores in sockets and NUMA nodes.

A core is named by its lowest CPU, because the numbers the kernel gives cores repeat from socket to socket.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from podfit.agent.cpus.decide.sets import NO_CPUS, Cpus


class Level:
    """One level of the topology: which group each CPU belongs to."""

    def __init__(self, group_of: Mapping[int, int]) -> None:
        self.group_of = group_of
        members: dict[int, set[int]] = {}
        for cpu, group in group_of.items():
            members.setdefault(group, set()).add(cpu)
        self.members: dict[int, Cpus] = {group: frozenset(cpus) for group, cpus in sorted(members.items())}

    def groups(self, cpus: Iterable[int]) -> set[int]:
        return {self.group_of[cpu] for cpu in cpus}

    def around(self, cpus: Iterable[int]) -> Cpus:
        """All CPUs in the groups of these CPUs."""
        return NO_CPUS.union(*(self.members[group] for group in self.groups(cpus)))


class Topology:
    def __init__(self, places: Mapping[int, tuple[int, int, int]]) -> None:
        """`places`: the core, the socket and the NUMA node of each CPU."""
        self._places = dict(sorted(places.items()))

    @cached_property
    def all(self) -> Cpus:
        return frozenset(self._places)

    @cached_property
    def cores(self) -> Level:
        return Level({cpu: core for cpu, (core, _, _) in self._places.items()})

    @cached_property
    def sockets(self) -> Level:
        return Level({cpu: socket for cpu, (_, socket, _) in self._places.items()})

    @cached_property
    def numa_nodes(self) -> Level:
        return Level({cpu: node for cpu, (_, _, node) in self._places.items()})


def flat(count: int) -> Topology:
    """A topology of `count` single-threaded cores in one socket."""
    return Topology({cpu: (cpu, 0, 0) for cpu in range(count)})


def regular(sockets: int, numa_nodes: int, cores: int, threads: int) -> Topology:
    """A topology of `numa_nodes` in all, with `cores` per socket. Numbered as Linux does: the second threads follow all
    first ones."""
    total = sockets * cores
    per_node = max(1, total // numa_nodes)
    return Topology(
        {
            core + thread * total: (core, core // cores, min(core // per_node, numa_nodes - 1))
            for core in range(total)
            for thread in range(threads)
        }
    )
