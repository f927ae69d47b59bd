"""Changing the number of exclusive CPUs of a container: it keeps its own and gets the nearest ones."""

from __future__ import annotations

import pytest

from podfit.agent.cpus.decide.fit import fit, grow
from podfit.agent.cpus.decide.sets import parse, text
from podfit.agent.cpus.decide.topology import regular

ONE_SOCKET = regular(sockets=1, numa_nodes=1, cores=4, threads=2)
TWO_NUMA_NODES_A_SOCKET = regular(sockets=2, numa_nodes=4, cores=20, threads=2)


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


def test_growing_takes_all_there_is_when_that_is_too_little() -> None:
    assert text(grow(ONE_SOCKET, parse("1"), 4, parse("2"))) == "1-2"
