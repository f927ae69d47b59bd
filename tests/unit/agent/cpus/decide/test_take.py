"""Which CPUs the static policy takes: the results of the kubelet for the same machines."""

from __future__ import annotations

import pytest

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


def test_cpus_without_siblings_are_taken_in_order() -> None:
    assert text(take(flat(4), parse("1-3"), 2)) == "1-2"
