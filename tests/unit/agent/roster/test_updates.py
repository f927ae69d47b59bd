"""The watch event of a status write may precede its response: the event is not taken for a change by others,
and other changes are not taken for it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from podfit.agent.agent import Agent
from podfit.agent.config import AgentConfig
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.fake.runtime import FakeRuntime
from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.status import ApiError
from podfit.client.rest import Client
from podfit.client.transport import ClientRequest, Reply, Stream
from podfit.kit.clock import FakeClock

POD: Object = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 1},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]},
    "status": {"phase": "Pending"},
}


def state(revision: int, cpu: str = "100m", **status: Any) -> Object:
    """The pod as the API shows it at this revision."""
    resources = {"requests": {"cpu": cpu}}
    return {
        "metadata": {**POD["metadata"], "resourceVersion": str(revision)},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
        "status": {"phase": "Running", **status},
    }


class Wire:
    """A server that delivers `during` on the watch before it answers a status write with revision 5."""

    def __init__(self) -> None:
        self.during: Callable[[], None] = lambda: None
        self.code = 200
        self.answer = state(5)

    async def request(self, ask: ClientRequest) -> Reply:
        if ask.method != "PATCH":
            # Discovery of the server's capabilities.
            return Reply(404, msgspec.json.encode({"kind": "Status", "code": 404}))
        self.during()
        body = {"kind": "Status", "code": self.code} if self.code >= 400 else self.answer
        return Reply(self.code, msgspec.json.encode(body))

    def stream(self, ask: ClientRequest) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError("nothing is watched here")

    async def close(self) -> None: ...


class Node:
    def __init__(self, folder: Path) -> None:
        self.wire = Wire()
        self.agent = Agent(Client(self.wire), FakeRuntime(), AgentConfig("n", folder, durable=False), FakeClock())
        self.agent.node.allocatable = {"cpu": Quantity.parse("4")}
        self.enqueued: list[str] = []
        self.roster = self.agent.roster
        self.agent._core.queue.enqueue = self.enqueued.append  # type: ignore[method-assign]
        self.roster.add(POD)
        self.enqueued.clear()

    @property
    def record(self) -> PodRecord:
        return self.agent.records["u"]

    async def write(self, *shown: Object) -> bool:
        """Writes a status while the watch delivers these states."""

        def during() -> None:
            for item in shown:
                self.roster.changed(self.record.pod, item)

        self.wire.during = during
        return await self.agent.parts.reporter._writer.write(self.record, {"phase": "Running"})


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_an_echo_before_its_answer_brings_no_other_look(node: Node) -> None:
    echo = state(5)
    assert await node.write(echo)
    assert node.enqueued == []
    assert node.record.pod is echo, "the copy that is kept anyway"


async def test_a_status_written_by_another_client_enqueues_the_pod(node: Node) -> None:
    await node.write(state(4, reason="of another"))
    assert node.enqueued == ["u"]
    assert node.record.pod["metadata"]["resourceVersion"] == "5"


async def test_of_two_states_at_most_one_is_the_echo(node: Node) -> None:
    await node.write(state(4, reason="of another"), state(5))
    assert node.enqueued == ["u"]
    assert node.record.pod["metadata"]["resourceVersion"] == "5"


async def test_a_state_after_the_echo_is_taken_over(node: Node) -> None:
    later = state(6, reason="of another")
    await node.write(state(5), later)
    assert "u" in node.enqueued
    assert node.record.pod is later


async def test_a_new_size_does_not_wait_for_the_answer(node: Node) -> None:
    asked: list[str] = []

    def during() -> None:
        node.roster.changed(node.record.pod, state(6, "300m"))
        asked.append(node.record.desired.containers["c"]["requests"]["cpu"])

    node.wire.during = during
    await node.agent.parts.reporter._writer.write(node.record, {"phase": "Running"})
    assert asked == ["300m"]
    assert "u" in node.enqueued
    assert node.record.pod["metadata"]["resourceVersion"] == "6", "the answer is older"


async def test_a_new_size_that_the_answer_is_the_first_to_show_is_news(node: Node) -> None:
    node.wire.answer = state(5, "300m")
    await node.write()
    assert node.enqueued == ["u"]
    assert node.agent.allocator._pending.keys() == {"u"}
    node.roster.changed(node.record.pod, state(4, "300m"))
    node.roster.changed(node.record.pod, state(5, "300m"))
    assert node.enqueued == ["u"], "the watch brings nothing more"


@pytest.mark.parametrize("code", [409, 500])
async def test_a_status_that_is_refused_loses_no_news(node: Node, code: int) -> None:
    node.wire.code = code
    news = state(4, reason="of another")
    try:
        assert not await node.write(news)
    except ApiError as error:
        assert error.code == code == 500
    assert "u" in node.enqueued
    assert node.record.pod is news
    assert not node.record.writing
