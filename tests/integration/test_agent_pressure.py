"""A node tells the API at once when its machine runs short, and takes it back after five quiet minutes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from podfit.agent.decide.pressure import Readings
from podfit.agent.pressure import PressureWatch
from podfit.api.kinds import NODE
from podfit.client.transport import Unreachable
from podfit.testing.nodes import Cluster, TestNode

CALM, SHORT = Readings(memory_free=1 << 30), Readings(memory_free=1 << 20)


class Machine:
    """Says what it is told to say."""

    def __init__(self) -> None:
        self.now = CALM

    def __call__(self) -> Readings:
        return self.now


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path) as running:
        yield running


async def memory(cluster: Cluster) -> dict[str, Any]:
    shown = (await cluster.client.get(NODE, "", "node1"))["status"]["conditions"]
    return next(one for one in shown if one["type"] == "MemoryPressure")


def watch(node: TestNode, machine: Machine) -> PressureWatch:
    return PressureWatch(node.agent.node, node.cluster.clock, machine)


async def test_a_pressure_is_told_at_once_and_over_after_five_minutes(cluster: Cluster) -> None:
    node, machine = await cluster.node(), Machine()
    looking = watch(node, machine)
    await looking.look()
    calm = await memory(cluster)
    assert (calm["status"], calm["reason"]) == ("False", "KubeletHasSufficientMemory")
    await node.pass_time(5)
    machine.now = SHORT
    await looking.look()
    short = await memory(cluster)
    assert (short["status"], short["reason"]) == ("True", "KubeletHasInsufficientMemory")
    assert short["lastTransitionTime"] > calm["lastTransitionTime"]
    machine.now = CALM
    await node.pass_time(299, 100)
    await looking.look()
    assert (await memory(cluster))["status"] == "True"
    await node.pass_time(1)
    await looking.look()
    assert (await memory(cluster))["status"] == "False"


async def test_readings_that_change_nothing_are_not_sent(cluster: Cluster) -> None:
    node, machine = await cluster.node(), Machine()
    looking = watch(node, machine)
    machine.now = SHORT
    await looking.look()
    revision = (await cluster.client.get(NODE, "", "node1"))["metadata"]["resourceVersion"]
    for _ in range(3):
        await looking.look()
    assert (await cluster.client.get(NODE, "", "node1"))["metadata"]["resourceVersion"] == revision


async def test_a_pressure_that_could_not_be_told_is_told_with_the_next_reading(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, machine = await cluster.node(), Machine()
    looking = watch(node, machine)
    machine.now = SHORT

    async def away(*_: Any, **__: Any) -> Any:
        raise Unreachable("away")

    with monkeypatch.context() as patched:
        patched.setattr(cluster.client, "patch", away)
        await looking.look()
    assert (await memory(cluster))["status"] == "False"
    await looking.look()
    assert (await memory(cluster))["status"] == "True"


async def test_simulated_nodes_do_not_read_the_machine(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []
    monkeypatch.setattr("podfit.agent.agent.machine_readings", lambda folder, ledger: asked.append(folder) or SHORT)
    node = await cluster.node()
    await node.pass_time(60, 10)
    assert not asked
    monkeypatch.setattr(type(node.runtime), "name", "podfit")
    await node.restart()
    assert asked and (await memory(cluster))["status"] == "True"
