"""Steps of a resize through the runtime: what is recorded, and what still happens after a failure."""

from __future__ import annotations

import pytest
from msgspec import structs
from tests.unit.agent.lab import Lab

from podfit.agent.actuation.actuator import ActuationFailed, allowed
from podfit.agent.decide.resize.actuate import GROW, SHRINK, MemoryCheck, NotePod, Plan, SetContainer, SetPod
from podfit.agent.runtimes.values import BelowUsage, LimitsChange, Machine, NotFound, RuntimeFailure

AFTER = {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}
BIGGER = SetContainer("cpu", GROW, "c", LimitsChange(cpu_shares=2048, cpu_quota_us=200_000), AFTER)
POD = SetPod("cpu", GROW, LimitsChange(cpu_quota_us=200_000))
BROKEN = RuntimeFailure("no")


async def test_a_step_that_worked_is_recorded_with_its_resource_only(lab: Lab) -> None:
    pod = await lab.observed(await lab.run())
    await lab.parts.resizing.actuator.apply(pod.record, Plan((), (POD, BIGGER)), pod.snapshot)
    found = lab.ledger.actuated("u").containers["c"]
    assert found["limits"] == {"cpu": "2", "memory": "64Mi"}
    assert (await lab.runtime.container_limits(pod.snapshot.running["c"].id)).cpu_quota_us == 200_000


async def test_a_step_that_failed_is_not_recorded_and_its_reason_is_raised(lab: Lab) -> None:
    pod = await lab.observed(await lab.run())
    pod.record.unverified = True
    lab.runtime.fail_next("update_container", BROKEN)
    with pytest.raises(ActuationFailed, match="no"):
        await lab.parts.resizing.actuator.apply(pod.record, Plan((), (BIGGER,)), pod.snapshot)
    assert lab.ledger.actuated("u").containers["c"]["limits"]["cpu"] == "100m"


async def test_a_container_that_is_gone_ends_the_plan_without_a_failure(lab: Lab) -> None:
    pod = await lab.observed(await lab.run())
    pod.record.unverified = True
    lab.runtime.fail_next("update_pod", NotFound("gone"))
    await lab.parts.resizing.actuator.apply(pod.record, Plan((), (POD, BIGGER)), pod.snapshot)
    assert lab.ledger.actuated("u").containers["c"]["limits"]["cpu"] == "100m"


async def test_a_memory_limit_below_usage_is_refused_before_anything_is_written(lab: Lab) -> None:
    pod = await lab.observed(await lab.run())
    lab.runtime.set_load("u", "c", memory=40 << 20)
    smaller = SetContainer("memory", SHRINK, "c", LimitsChange(memory_bytes=32 << 20), {"limits": {"memory": "32Mi"}})
    check = MemoryCheck("c", 32 << 20)
    with pytest.raises(ActuationFailed, match="below current usage") as raised:
        await lab.parts.resizing.actuator.apply(pod.record, Plan((), (smaller, BIGGER), (check,)), pod.snapshot)
    assert raised.value.below == (check,)
    assert lab.ledger.actuated("u").containers["c"]["limits"] == {"cpu": "100m", "memory": "64Mi"}


async def test_the_memory_of_a_virtual_machine_is_left_to_its_runtime(lab: Lab) -> None:
    pod = await lab.observed(await lab.run())
    lab.runtime.set_load("u", "c", memory=40 << 20)
    running = pod.snapshot.running
    running["c"] = structs.replace(running["c"], machine=Machine())
    lab.runtime.fail_next("update_container", RuntimeFailure("8 MiB of 64 MiB are still in use by the guest"))
    smaller = SetContainer("memory", SHRINK, "c", LimitsChange(memory_bytes=32 << 20), {"limits": {"memory": "32Mi"}})
    checks = (MemoryCheck("", 32 << 20), MemoryCheck("c", 32 << 20))
    pod.record.unverified = True
    with pytest.raises(ActuationFailed, match="still in use by the guest") as raised:
        await lab.parts.resizing.actuator.apply(pod.record, Plan((), (smaller,), checks), pod.snapshot)
    assert raised.value.below == ()


def test_a_container_that_cannot_grow_does_not_keep_others_from_growing() -> None:
    other = SetContainer("cpu", GROW, "d", LimitsChange(), AFTER)
    assert allowed(other, [(BIGGER, BROKEN)])
    assert not allowed(NotePod("cpu", AFTER), [(BIGGER, BROKEN)])


def test_after_a_container_that_cannot_shrink_only_others_shrink() -> None:
    stuck = SetContainer("memory", SHRINK, "c", LimitsChange(), AFTER)
    failures = [(stuck, BelowUsage(2, 1))]
    assert allowed(SetContainer("memory", SHRINK, "d", LimitsChange(), AFTER), list(failures))
    assert not allowed(SetContainer("memory", SHRINK, "c", LimitsChange(), AFTER), list(failures))
    assert not allowed(SetContainer("memory", GROW, "d", LimitsChange(), AFTER), list(failures))
    assert not allowed(SetPod("memory", SHRINK, LimitsChange()), list(failures))
