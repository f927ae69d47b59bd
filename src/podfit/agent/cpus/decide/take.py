"""Selects CPUs: whole NUMA nodes and sockets first, then whole cores, then single threads, as the kubelet does.

At each level the group with the fewest sufficient free CPUs comes first, so that large free groups stay whole for later
requests. On machines with several NUMA nodes in a socket, sockets come before NUMA nodes.
"""

from __future__ import annotations

from podfit.agent.cpus.decide.sets import NO_CPUS, Cpus
from podfit.agent.cpus.decide.topology import Level, Topology


def take(topology: Topology, free: Cpus, count: int) -> Cpus:
    """Takes `count` CPUs from `free`, which has at least that many."""
    if count <= 0:
        return NO_CPUS
    if count == len(free):
        return free
    assert count < len(free), "callers compare the numbers first"
    packing = _Packing(topology, free, count)
    large = [topology.numa_nodes, topology.sockets]
    for level in large if packing.numa_first else reversed(large):
        packing.whole_groups(level, packing.ordered(level))
    packing.whole_groups(topology.cores, packing.cores())
    packing.threads()
    return packing.taken


class _Packing:
    def __init__(self, topology: Topology, free: Cpus, count: int) -> None:
        self._topology, self._free, self._missing = topology, free, count
        self.taken = NO_CPUS
        self.numa_first = len(topology.sockets.members) >= len(topology.numa_nodes.members)

    def whole_groups(self, level: Level, groups: list[int]) -> None:
        for group in [candidate for candidate in groups if level.members[candidate] <= self._free]:
            if len(level.members[group]) <= self._missing:
                self._take(level.members[group])

    def threads(self) -> None:
        for core in self.cores():
            for cpu in sorted(self._topology.cores.members[core] & self._free):
                if not self._missing:
                    return
                self._take(frozenset((cpu,)))

    def _take(self, cpus: Cpus) -> None:
        self.taken |= cpus
        self._free -= cpus
        self._missing -= len(cpus)

    # --- orders: groups with the fewest free CPUs first, nested by group size
    def cores(self) -> list[int]:
        inside = self._topology.sockets if self.numa_first else self._topology.numa_nodes
        return self._within(self._topology.cores, inside, self.ordered(inside))

    def ordered(self, level: Level) -> list[int]:
        outer = self._topology.numa_nodes if self.numa_first else self._topology.sockets
        if level is outer:
            return self._by_size(level, self._free)
        return self._within(level, outer, self._by_size(outer, self._free))

    def _within(self, level: Level, outer: Level, groups: list[int]) -> list[int]:
        found: list[int] = []
        for group in groups:
            found += self._by_size(level, self._free & outer.members[group])
        return list(dict.fromkeys(found))

    def _by_size(self, level: Level, free: Cpus) -> list[int]:
        return sorted(level.groups(free), key=lambda group: (len(level.members[group] & self._free), group))
