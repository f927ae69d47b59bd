"""An agent from start to stop: which pods it adopts, what it removes, and what outlives it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from tests.support.cluster.agentpods import create, pod
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.agent.runtimes.values import RUNNING, RuntimeFailure
from podfit.api.registry.kinds import POD


@pytest_asyncio.fixture
async def node(tmp_path: Path) -> AsyncIterator[TestNode]:
    async with Cluster(tmp_path) as cluster:
        yield await cluster.node()


async def test_pods_outlive_the_agent_and_are_adopted_by_the_next(node: TestNode) -> None:
    await create(node.cluster, node, pod())
    (before,) = [container.id for container in node.machine.containers.values()]
    await node.restart()
    assert [(item.id, item.state) for item in node.machine.containers.values()] == [(before, RUNNING)]
    record = node.agent.find("default", "p")
    assert record is not None and record.adopted


async def test_a_pod_deleted_while_no_agent_ran_is_removed_at_the_next_start(node: TestNode) -> None:
    await create(node.cluster, node, pod())
    await node.stop()
    await node.cluster.client.delete(POD, "default", "p", {"gracePeriodSeconds": 0})
    await node.restart()
    assert node.machine.pods == {} and node.agent.ledger.uids() == set()


async def test_a_runtime_that_fails_at_the_start_is_called_again(node: TestNode) -> None:
    await create(node.cluster, node, pod())
    await node.stop()
    failing = [RuntimeFailure("not yet")]
    pods = node.runtime.pods

    async def answer() -> object:
        if failing:
            raise failing.pop()
        return await pods()

    node.agent = node._agent()
    node.runtime.pods = answer  # type: ignore[method-assign,assignment]
    await node.agent.start()
    node.up = True
    while not node.agent.synced.is_set():
        await node.cluster.clock.advance(0.5)
    assert node.agent.find("default", "p") is not None and not failing


async def test_a_stop_with_its_pods_leaves_nothing_running(node: TestNode) -> None:
    await create(node.cluster, node, pod())
    node.up = False
    await node.agent.stop(stop_pods=True)
    assert node.machine.pods == {}
