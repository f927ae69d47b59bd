"""Which CPUs the static policy takes: the results of the kubelet for the same machines."""

from __future__ import annotations

import pytest

from podfit.agent.cpus.decide.fit import fit
from podfit.agent.cpus.decide.sets import parse, text
from podfit.agent.cpus.decide.take import take
from podfit.agent.cpus.decide.topology import Topology, flat, regular

ONE_SOCKET = regular(sockets=1, numa_nodes=1, cores=4, threads=2)
TWO_SOCKETS = Topology({cpu: (cpu % 6, cpu % 2, cpu % 2) for cpu in range(12)})
"""Even cores in the first socket, odd ones in the second."""
TWO_NUMA_NODES_A_SOCKET = regular(sockets=2, numa_nodes=4, cores=20, threads=2)


@pytest.mark.parametrize(
    ("topology", "free", "count", "expected"),
    [
        pytest.param(ONE_SOCKET, "0-7", 0, "", id="nothing"),
        pytest.param(ONE_SOCKET, "0-7", 1, "0", id="one thread"),
        pytest.param(ONE_SOCKET, "1,3,5-7", 1, "6", id="the single thread of a core that is taken already"),
        pytest.param(ONE_SOCKET, "0-7", 2, "0,4", id="one core"),
        pytest.param(ONE_SOCKET, "0-7", 8, "0-7", id="everything"),
        pytest.param(ONE_SOCKET, "0-3,6", 2, "2,6", id="the only core that is wholly free"),
        pytest.param(TWO_SOCKETS, "0-11", 6, "0,2,4,6,8,10", id="one socket"),
        pytest.param(TWO_SOCKETS, "1-5,7-11", 1, "2", id="from the socket with fewer free cores"),
        pytest.param(TWO_SOCKETS, "0-11", 8, "0-2,4,6-8,10", id="one socket and one core"),
        pytest.param(TWO_NUMA_NODES_A_SOCKET, "0-79", 40, "0-19,40-59", id="a socket of two NUMA nodes"),
        pytest.param(TWO_NUMA_NODES_A_SOCKET, "0-79", 20, "0-9,40-49", id="a NUMA node"),
        pytest.param(TWO_NUMA_NODES_A_SOCKET, "10-39,50-79", 20, "10-19,50-59", id="the other node of a socket in use"),
        pytest.param(TWO_NUMA_NODES_A_SOCKET, "0-79", 60, "0-29,40-69", id="a socket and a NUMA node"),
        pytest.param(TWO_NUMA_NODES_A_SOCKET, "1-39,41-79", 60, "10-39,50-79", id="the socket that is wholly free"),
        pytest.param(TWO_NUMA_NODES_A_SOCKET, "0-79", 64, "0-31,40-71", id="three NUMA nodes and two cores"),
    ],
)
def test_the_kubelet_takes_the_same_cpus(topology: Topology, free: str, count: int, expected: str) -> None:
    assert text(take(topology, parse(free), count)) == expected


@pytest.mark.parametrize(
    ("current", "count", "free", "expected"),
    [
        pytest.param("1", 2, "0,2-7", "1,5", id="the other thread of its core"),
        pytest.param("1,5", 4, "0,2-4,6,7", "0-1,4-5", id="another whole core"),
        pytest.param("1,5", 3, "2-4,7", "1,4-5", id="a single thread before a whole core is opened"),
        pytest.param("0-1,4-5", 2, "", "0,4", id="a whole core is kept"),
        pytest.param("0-1,4", 1, "", "1", id="a single thread is kept rather than half of a core"),
    ],
)
def test_a_container_keeps_its_cpus_and_gets_the_nearest(current: str, count: int, free: str, expected: str) -> None:
    assert text(fit(ONE_SOCKET, parse(current), count, parse(free))) == expected


def test_cpus_of_the_same_numa_node_come_before_others_of_the_socket() -> None:
    found = fit(TWO_NUMA_NODES_A_SOCKET, parse("10,50"), 4, parse("0-9,40-49,15,30,35,55"))
    assert text(found) == "10,15,50,55"


def test_cpus_of_the_same_socket_come_before_the_rest_of_the_machine() -> None:
    found = fit(TWO_NUMA_NODES_A_SOCKET, parse("10,50"), 4, parse("0,20-39,40,60-79"))
    assert text(found) == "0,10,40,50"


def test_cpus_without_siblings_are_taken_in_order() -> None:
    assert text(take(flat(4), parse("1-3"), 2)) == "1-2"
