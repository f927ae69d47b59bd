"""Features of the fake runtime: load, time, faults, and outliving the agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from podfit.agent.runtimes.fake.runtime import FakeNodeState, FakeRuntime
from podfit.agent.runtimes.values import (
    EXITED,
    RUNNING,
    BelowUsage,
    CannotRun,
    ContainerConfig,
    ContainerState,
    ImageMissing,
    Limits,
    LimitsChange,
    PodConfig,
    RuntimeFailure,
)
from podfit.kit.clock import FakeClock

MIB = 1 << 20


class Node:
    def __init__(self) -> None:
        self.clock, self.state = FakeClock(), FakeNodeState()
        self.runtime = FakeRuntime(self.clock, self.state)

    async def start(self, *command: str, limits: Limits | None = None, pod: Limits | None = None, **notes: str) -> str:
        annotations = {f"podfit.dev/fake-{key}": value for key, value in notes.items()}
        config = PodConfig(
            "u", "web", "default", "Burstable", pod or Limits(512), "web", Path("/none"), annotations=annotations
        )
        await self.runtime.run_pod(config)
        one = ContainerConfig("c1", 0, "app", command, (), {}, "", (), limits or Limits(256), Path("/none/c1.log"))
        cid = await self.runtime.create_container("u", one)
        await self.runtime.start_container(cid)
        return cid

    async def seen(self, container_id: str) -> ContainerState:
        state = await self.runtime.container(container_id)
        assert state is not None
        return state


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    made = Node()
    await made.runtime.open()
    yield made
    await made.runtime.close()


async def test_cpu_time_is_the_area_under_the_curve(node: Node) -> None:
    cid = await node.start("server", cpu="ramp:0..2:10")
    await node.clock.advance(10)
    assert (await node.runtime.container_usage(cid)).cpu_nanos == pytest.approx(10e9)
    await node.clock.advance(5)
    assert (await node.runtime.container_usage(cid)).cpu_nanos == pytest.approx(20e9)


async def test_a_quota_cuts_cpu_and_counts_the_throttling(node: Node) -> None:
    cid = await node.start("server", limits=Limits(256, 50_000, None), cpu="constant:2")
    await node.clock.advance(10)
    usage = await node.runtime.container_usage(cid)
    assert usage.cpu_nanos == pytest.approx(5e9) and usage.throttled_nanos == pytest.approx(15e9)
    assert (usage.periods, usage.throttled_periods) == (100, 100)
    await node.runtime.update_container(cid, LimitsChange(cpu_quota_us=300_000))
    await node.clock.advance(10)
    after = await node.runtime.container_usage(cid)
    assert after.cpu_nanos == pytest.approx(25e9) and after.throttled_periods == 100


async def test_memory_that_meets_its_limit_kills_at_that_moment_and_not_before(node: Node) -> None:
    cid = await node.start("server", limits=Limits(256, None, 100 * MIB), memory="ramp:0..200Mi:100")
    started = (await node.seen(cid)).started_at
    await node.clock.advance(49)
    assert (await node.seen(cid)).state == RUNNING
    await node.clock.advance(2)
    state = await node.seen(cid)
    assert (state.state, state.exit_code, state.reason) == (EXITED, 137, "OOMKilled")
    assert state.finished_at - started == pytest.approx(50, abs=0.01)


async def test_a_limit_raised_in_time_saves_the_container(node: Node) -> None:
    cid = await node.start("server", limits=Limits(256, None, 100 * MIB), memory="ramp:0..200Mi:100")
    await node.clock.advance(40)
    await node.runtime.update_container(cid, LimitsChange(memory_bytes=300 * MIB))
    await node.clock.advance(1000)
    assert (await node.seen(cid)).state == RUNNING


async def test_the_pods_limit_kills_too(node: Node) -> None:
    cid = await node.start("server", pod=Limits(512, None, 64 * MIB), memory="ramp:0..200Mi:100")
    await node.clock.advance(60)
    assert (await node.seen(cid)).reason == "OOMKilled"


async def test_waiting_for_memory_ends_when_the_curve_falls(node: Node) -> None:
    cid = await node.start("server", memory="steps:100Mi@0,10Mi@30")
    for target in (cid, ""):
        waiting = asyncio.ensure_future(node.runtime.memory_below("u", target, 50 * MIB))
        await node.clock.advance(0)
        await node.clock.advance(14)
        assert not waiting.done()
        await node.clock.advance(17)
        assert waiting.done()
        node.runtime.set_load("u", "c1", memory=lambda t: 100 * MIB if t < 60 else 0.0)


async def test_a_memory_limit_below_usage_is_reported_with_numbers(node: Node) -> None:
    cid = await node.start("server", limits=Limits(256, None, 100 * MIB), memory="constant:80Mi")
    with pytest.raises(BelowUsage) as refusal:
        await node.runtime.update_container(cid, LimitsChange(memory_bytes=50 * MIB))
    assert (refusal.value.usage_bytes, refusal.value.limit_bytes) == (80 * MIB, 50 * MIB)


async def test_scripted_failures_hit_the_next_calls_only(node: Node) -> None:
    cid = await node.start("server")
    node.runtime.fail_next("update_container", RuntimeFailure("disk on fire"), times=2)
    for _ in range(2):
        with pytest.raises(RuntimeFailure, match="disk on fire"):
            await node.runtime.update_container(cid, LimitsChange(cpu_shares=99))
    assert (await node.runtime.container_limits(cid)).cpu_shares == 256
    await node.runtime.update_container(cid, LimitsChange(cpu_shares=99))
    assert (await node.runtime.container_limits(cid)).cpu_shares == 99


@pytest.mark.parametrize(("phase", "shares"), [("before", 256), ("after", 99)])
async def test_a_crash_before_or_after_a_write_leaves_the_machine_so(node: Node, phase: str, shares: int) -> None:
    cid = await node.start("server")

    def crash(when: str, operation: str, subject: str, argument: Any) -> None:
        if (when, operation) == (phase, "update_container"):
            raise KeyboardInterrupt

    node.state.hooks.append(crash)
    with pytest.raises(KeyboardInterrupt):
        await node.runtime.update_container(cid, LimitsChange(cpu_shares=99))
    node.state.hooks.clear()
    again = FakeRuntime(node.clock, node.state)
    await again.open()
    assert (await again.container_limits(cid)).cpu_shares == shares
    await again.close()


async def test_a_container_that_exits_without_an_agent_has_its_real_exit_time(node: Node) -> None:
    cid = await node.start("sh", "-c", "sleep 10; exit 4")
    started = (await node.seen(cid)).started_at
    await node.runtime.close()
    await node.clock.advance(100)
    again = FakeRuntime(node.clock, node.state)
    await again.open()
    state = await again.container(cid)
    assert state is not None and (state.exit_code, state.finished_at - started) == (4, 10)
    event = await anext(again.events())
    assert (event.kind, event.container_id) == ("exited", cid)
    await again.close()


async def test_a_forgotten_runtime_does_not_take_its_successors_events(node: Node) -> None:
    cid = await node.start("sleep", "10")
    successor = FakeRuntime(node.clock, node.state)
    await successor.open()
    await node.clock.advance(11)
    event = await asyncio.wait_for(anext(successor.events()), 1)
    assert (event.kind, event.container_id) == ("exited", cid)
    await successor.close()


async def test_the_grace_of_a_deaf_program_passes_with_the_clock(node: Node) -> None:
    cid = await node.start("sleep", "1000")
    stopping = asyncio.ensure_future(node.runtime.stop_container(cid, 30))
    await node.clock.advance(0)
    await node.clock.advance(29)
    assert not stopping.done()
    await node.clock.advance(2)
    await stopping
    assert (await node.seen(cid)).exit_code == 137


async def test_exit_and_stop_may_be_scripted_by_annotation(node: Node) -> None:
    cid = await node.start("server", exit="3@20")
    await node.clock.advance(19)
    assert (await node.seen(cid)).state == RUNNING
    await node.clock.advance(2)
    assert (await node.seen(cid)).exit_code == 3


async def test_an_invalid_load_annotation_is_reported_and_crashes_nothing(node: Node) -> None:
    with pytest.raises(CannotRun, match="unknown load") as refusal:
        await node.start("server", cpu="zigzag:1")
    assert refusal.value.reason == "CreateContainerConfigError"


async def test_missing_images_are_missing(node: Node) -> None:
    node.state.missing_images.add("ghost:1")
    with pytest.raises(ImageMissing) as refusal:
        await node.runtime.pull_image("ghost:1")
    assert refusal.value.reason == "ErrImagePull"


async def test_the_journal_has_every_operation_in_order(node: Node) -> None:
    node.state.journal = []
    cid = await node.start("server")
    await node.runtime.update_pod("u", LimitsChange(cpu_shares=600))
    await node.runtime.update_container(cid, LimitsChange(cpu_shares=300))
    assert [(name, subject) for name, subject, _ in node.state.journal[-2:]] == [
        ("update_pod", "u"),
        ("update_container", cid),
    ]


async def test_a_thousand_idle_nodes_cost_no_task() -> None:
    clock = FakeClock()
    before = len(asyncio.all_tasks())
    nodes = [FakeRuntime(clock) for _ in range(1000)]
    for runtime in nodes:
        await runtime.open()
        await runtime.run_pod(PodConfig("u", "web", "default", "Burstable", Limits(512), "web", Path("/none")))
        one = ContainerConfig("c1", 0, "app", ("server",), (), {}, "", (), Limits(256), Path("/none/c1.log"))
        await runtime.start_container(await runtime.create_container("u", one))
    assert len(asyncio.all_tasks()) == before
    await clock.advance(60)
    assert all([(await runtime.pod_usage("u")).cpu_nanos == pytest.approx(60e6) for runtime in nodes])


async def test_a_port_answers_as_the_test_says(node: Node) -> None:
    await node.start("server")
    node.state.ports["u", 80] = bytes.upper
    stream = await node.runtime.connect("u", 80)
    await stream.write(b"hello")
    assert await stream.read() == b"HELLO"
    with pytest.raises(RuntimeFailure, match="refused"):
        await node.runtime.connect("u", 81)
