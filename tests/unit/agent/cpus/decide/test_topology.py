"""Grouping of CPUs into cores, sockets and NUMA nodes."""

from __future__ import annotations

from podfit.agent.cpus.decide.sets import NO_CPUS, parse, text
from podfit.agent.cpus.decide.topology import Level, flat, regular


def test_second_threads_are_numbered_after_all_first_ones() -> None:
    cores = regular(sockets=2, numa_nodes=2, cores=2, threads=2).cores
    assert {core: text(cpus) for core, cpus in cores.members.items()} == {0: "0,4", 1: "1,5", 2: "2,6", 3: "3,7"}


def test_cores_are_spread_over_sockets_and_numa_nodes_in_order() -> None:
    machine = regular(sockets=2, numa_nodes=4, cores=4, threads=1)
    assert [text(cpus) for cpus in machine.sockets.members.values()] == ["0-3", "4-7"]
    assert [text(cpus) for cpus in machine.numa_nodes.members.values()] == ["0-1", "2-3", "4-5", "6-7"]


def test_a_flat_machine_has_a_core_for_each_cpu_and_one_socket() -> None:
    machine = flat(3)
    assert len(machine.cores.members) == 3
    assert machine.sockets.members == {0: machine.all}


def test_around_some_cpus_is_everything_in_their_groups() -> None:
    level = Level({0: 0, 1: 0, 2: 1, 3: 1, 4: 2})
    assert text(level.around(parse("1,4"))) == "0-1,4"
    assert level.around(NO_CPUS) == NO_CPUS
