"""Changes the number of a container's CPUs. The container keeps its present CPUs, and new ones are close to them."""

from __future__ import annotations

from podfit.agent.cpus.decide.sets import Cpus
from podfit.agent.cpus.decide.take import take
from podfit.agent.cpus.decide.topology import Topology


def fit(topology: Topology, current: Cpus, count: int, free: Cpus) -> Cpus:
    """Returns `count` CPUs: a subset of `current` if that is enough, otherwise all of it and the nearest of `free`."""
    return take(topology, current, count) if count <= len(current) else grow(topology, current, count, free)


def grow(topology: Topology, current: Cpus, count: int, free: Cpus) -> Cpus:
    """Adds CPUs: other threads of the cores in use first, then their NUMA nodes, their sockets, and the rest of the
    machine."""
    chosen = current
    for level in (topology.cores, topology.numa_nodes, topology.sockets):
        chosen |= _part(topology, (free - chosen) & level.around(chosen), count - len(chosen))
    return chosen | _part(topology, free - chosen, count - len(chosen))


def _part(topology: Topology, free: Cpus, missing: int) -> Cpus:
    return take(topology, free, min(missing, len(free)))
