"""Containers near their memory limit, on cgroup v1 and v2: detected in time, and throttled until they get more."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from podfit.agent.runtimes.values import RUNNING, Limits, LimitsChange

MI = 1 << 20
HOG = """
import sys, time
sys.stdin.close()
print("begun", flush=True)
time.sleep(0.5)
held = []
for _ in range(int(sys.argv[1])):
    held.append(bytearray(b"x") * (1 << 20))
    time.sleep(0.005)
print("grown", flush=True)
time.sleep(600)
"""


def limits(mib: int) -> Limits:
    return Limits(256, None, mib * MI)


async def hog(machine: Any, whole: int, limit: int) -> tuple[str, str]:
    uid = await machine.pod(limits=limits(limit))
    return uid, await machine.start(uid, sys.executable, "-S", "-c", HOG, str(whole), limits=limits(limit))


async def test_growth_is_noticed_when_it_crosses_the_threshold(machine: Any) -> None:
    uid, cid = await hog(machine, 96, 160)
    await machine.runtime.hold_memory(cid, 80 * MI)
    async with asyncio.timeout(120):
        await machine.runtime.memory_above(uid, cid, 80 * MI)
    assert (await machine.runtime.container_usage(cid)).memory_bytes >= 70 * MI
    assert (await machine.runtime.container(cid)).state == RUNNING


async def test_a_container_that_is_held_back_lives_until_its_limit_is_raised(machine: Any) -> None:
    uid, cid = await hog(machine, 110, 96)
    await machine.runtime.hold_memory(cid, 86 * MI)
    async with asyncio.timeout(120):
        await machine.runtime.memory_above(uid, cid, 86 * MI)
    await asyncio.sleep(1.0)
    assert (await machine.runtime.container(cid)).state == RUNNING, "it wants more than its limit, and waits"
    assert "grown" not in machine.text(uid)
    await machine.runtime.update_pod(uid, LimitsChange(memory_bytes=192 * MI))
    await machine.runtime.update_container(cid, LimitsChange(memory_bytes=192 * MI))
    await machine.runtime.hold_memory(cid, 172 * MI)
    async with asyncio.timeout(120):
        await machine.said(uid, "grown")
    assert (await machine.runtime.container(cid)).state == RUNNING


async def test_the_oom_killer_acts_again_after_the_timeout(machine: Any) -> None:
    uid, cid = await hog(machine, 110, 64)
    await machine.runtime.hold_memory(cid, 57 * MI)
    async with asyncio.timeout(120):
        await machine.runtime.memory_above(uid, cid, 57 * MI)
    await machine.runtime.hold_memory(cid, None)
    assert (await machine.ended(cid)).reason == "OOMKilled"
