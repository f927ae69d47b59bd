"""The Node's Ready condition follows the status of its container runtime."""

from __future__ import annotations

from typing import Any

from podfit.agent.node.runtime_watch import DOWN, DOWN_AFTER_S, RuntimeWatch
from podfit.agent.runtimes.cri.failures import not_ready
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.cri import api_pb2 as api
from podfit.kit.clock import FakeClock


class Runtime:
    def __init__(self) -> None:
        self.says: str | None = ""

    async def problem(self) -> str:
        if self.says is None:
            raise RuntimeFailure("no answer")
        return self.says


class Node:
    name, known = "n1", True

    def __init__(self) -> None:
        self.problem = ""
        self.published: list[str] = []

    async def publish(self) -> None:
        self.published.append(self.problem)


def watched() -> tuple[Runtime, Node, FakeClock, Any]:
    runtime, node, clock = Runtime(), Node(), FakeClock()
    return runtime, node, clock, RuntimeWatch(runtime, node, clock)  # type: ignore[arg-type]


async def test_a_missing_network_is_reported_at_once_and_its_end_too() -> None:
    runtime, node, _, watch = watched()
    runtime.says = "container runtime network not ready"
    await watch.check()
    await watch.check()
    runtime.says = ""
    await watch.check()
    assert node.published == ["container runtime network not ready", ""]


async def test_a_runtime_that_restarts_quickly_leaves_the_node_ready() -> None:
    runtime, node, clock, watch = watched()
    runtime.says = None
    await watch.check()
    await clock.advance(DOWN_AFTER_S - 1)
    await watch.check()
    runtime.says = ""
    await watch.check()
    assert node.published == []


async def test_a_runtime_that_stays_silent_makes_the_node_not_ready() -> None:
    runtime, node, clock, watch = watched()
    runtime.says = None
    await clock.advance(DOWN_AFTER_S)
    await watch.check()
    assert node.published == [DOWN]


def test_conditions_are_worded_as_a_kubelet_words_them() -> None:
    conditions = [
        api.RuntimeCondition(type="RuntimeReady", status=True),
        api.RuntimeCondition(type="NetworkReady", reason="NetworkPluginNotReady", message="cni plugin not initialized"),
        api.RuntimeCondition(type="Extra", status=False),
    ]
    assert not_ready(api.RuntimeStatus(conditions=conditions)) == (
        "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
        "message:cni plugin not initialized"
    )
