"""Reads the CPU topology of this machine from sysfs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from podfit.agent.cpus.decide.sets import NO_CPUS, BadCpuList, Cpus, parse
from podfit.agent.cpus.decide.topology import Topology

SYSTEM = Path("/sys/devices/system")


class UnknownTopology(Exception):
    """The machine does not describe its CPUs."""


def read(system: Path = SYSTEM) -> Topology:
    """The topology of the online CPUs."""
    try:
        online = parse((system / "cpu" / "online").read_text())
        nodes = _numa_nodes(system)
        return Topology({cpu: _place(system / "cpu" / f"cpu{cpu}", cpu, online, nodes) for cpu in online})
    except (OSError, ValueError) as error:
        raise UnknownTopology(f"the CPUs of this machine cannot be read from {system}: {error}") from error


def _place(folder: Path, cpu: int, online: Cpus, nodes: Mapping[int, int]) -> tuple[int, int, int]:
    topology = folder / "topology"
    try:
        siblings = parse((topology / "thread_siblings_list").read_text()) & online
        socket = int((topology / "physical_package_id").read_text())
    except (FileNotFoundError, BadCpuList):
        siblings, socket = NO_CPUS, 0
    # Virtual machines may have no package: -1.
    return min(siblings | {cpu}), max(socket, 0), nodes.get(cpu, 0)


def _numa_nodes(system: Path) -> dict[int, int]:
    found: dict[int, int] = {}
    for folder in (system / "node").glob("node[0-9]*"):
        for cpu in parse((folder / "cpulist").read_text()):
            found[cpu] = int(folder.name.removeprefix("node"))
    return found
