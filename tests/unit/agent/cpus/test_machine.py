"""Reading the topology of CPUs from sysfs."""

from __future__ import annotations

from pathlib import Path

import pytest

from podfit.agent.cpus.decide.sets import parse, text
from podfit.agent.cpus.decide.topology import regular
from podfit.agent.cpus.machine import UnknownTopology, read


def write_machine(folder: Path, online: str) -> None:
    """Two sockets of two cores with two threads each; cores are numbered from 0 in each socket, as by the kernel."""
    for cpu in range(8):
        core, socket = cpu % 4, cpu % 4 // 2
        topology = folder / "cpu" / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "core_id").write_text(f"{core % 2}\n")
        (topology / "physical_package_id").write_text(f"{socket}\n")
        (topology / "thread_siblings_list").write_text(f"{core},{core + 4}\n")
    (folder / "cpu" / "online").write_text(f"{online}\n")
    for node, cpus in enumerate(("0-1,4-5", "2-3,6-7")):
        (folder / "node" / f"node{node}").mkdir(parents=True)
        (folder / "node" / f"node{node}" / "cpulist").write_text(f"{cpus}\n")


def test_cores_sockets_and_numa_nodes_are_read(tmp_path: Path) -> None:
    write_machine(tmp_path, "0-7")
    found, expected = read(tmp_path), regular(sockets=2, numa_nodes=2, cores=2, threads=2)
    assert found.all == expected.all
    assert found.cores.members == expected.cores.members
    assert found.sockets.members == expected.sockets.members
    assert found.numa_nodes.members == expected.numa_nodes.members


def test_cpus_that_are_offline_do_not_count(tmp_path: Path) -> None:
    write_machine(tmp_path, "1-3,6-7")
    found = read(tmp_path)
    assert text(found.all) == "1-3,6-7"
    assert {core: text(cpus) for core, cpus in found.cores.members.items()} == {1: "1", 2: "2,6", 3: "3,7"}


def test_this_machine_has_the_cpus_that_it_says_are_online() -> None:
    assert read().all == parse(Path("/sys/devices/system/cpu/online").read_text())


def test_a_machine_that_describes_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnknownTopology, match="cannot be read"):
        read(tmp_path)
