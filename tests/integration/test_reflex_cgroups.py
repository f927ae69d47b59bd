"""The memory reflex on real cgroups: a container that fills its memory within seconds is given more in time."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.reflexes import GROW, MI, Reflexive, reflexive

from podfit.agent.runtimes.values import RuntimeFailure
from podfit.api.objects import Object
from podfit.api.pods.reflex import ANNOTATION, CONDITION, LEAK, MEMORY
from podfit.api.registry.kinds import POD

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root and writable cgroups")]
PYTHON = os.path.realpath(sys.executable)


def growing(rate: int, whole: int) -> list[str]:
    return [PYTHON, "-S", "-E", "-c", GROW, str(rate), str(whole)]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Reflexive]:
    try:
        async with reflexive(tmp_path) as made:
            yield made
    except RuntimeFailure as error:
        pytest.skip(f"no cgroups to write here: {error}")


def ended(pod: Object) -> bool:
    return pod["status"].get("phase") in ("Failed", "Succeeded")


def condition(pod: Object) -> dict[str, Any]:
    found = [known for known in pod["status"].get("conditions") or () if known["type"] == CONDITION]
    return found[0] if found else {}


async def grown(world: Reflexive, name: str) -> Object:
    """The pod once its program has filled the memory it wanted, or has terminated."""
    made = await world.client.get(POD, "default", name)
    while True:
        pod = await world.client.get(POD, "default", name)
        if ended(pod):
            return pod
        if made["metadata"]["uid"] in world.agent.records and "grown" in await world.output(made["metadata"]["uid"]):
            return pod
        await asyncio.sleep(0.05)


async def test_growth_of_100_mib_a_second_from_64_mib_to_a_gib_is_not_killed(world: Reflexive) -> None:
    made = await world.pod("grow", growing(100, 850))
    pod = await grown(world, "grow")
    assert not ended(pod), pod["status"]
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    assert await world.limit(made["metadata"]["uid"]) == 1024 * MI
    events = [event["reason"] for event in await world.cluster.events()]
    await world.updater.events.flush()
    events = [event["reason"] for event in await world.cluster.events()]
    assert "MemoryReflex" in events and "MemoryNearLimit" in events
    story = [chapter["what"] for chapter in world.agent.story(made["metadata"]["uid"])]
    assert "near its limit" in story and "actuated" in story


async def test_the_same_growth_is_killed_without_the_reflex(world: Reflexive) -> None:
    await world.pod("grow", growing(100, 850), reflex=False)
    pod = await world.until("grow", ended)
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "OOMKilled"


async def test_a_leak_climbs_to_its_bound_and_no_further_and_is_called_one(world: Reflexive) -> None:
    made = await world.pod("leak", growing(60, 180), limit="64Mi", most="192Mi")
    pod = await world.until("leak", lambda pod: condition(pod).get("reason") == LEAK or ended(pod))
    assert condition(pod)["message"].endswith("leak?"), pod["status"]
    assert await world.limit(made["metadata"]["uid"]) == 192 * MI
    await world.updater.events.flush()
    held = [event["message"] for event in await world.cluster.events() if event["reason"] == "ReflexHeld"]
    assert any("at the bound" in words and words.endswith("leak?") for words in held)


async def test_the_autoscalers_annotation_allows_it_for_its_pods(world: Reflexive) -> None:
    await world.pod("grow", growing(30, 100), reflex=False, annotations={ANNOTATION: MEMORY})
    pod = await world.until("grow", lambda pod: ANNOTATION in (pod["metadata"].get("annotations") or {}))
    assert pod["metadata"]["annotations"][ANNOTATION] == MEMORY
    assert not ended(await grown(world, "grow"))


async def test_a_pod_that_has_enough_is_not_changed(world: Reflexive) -> None:
    made = await world.pod("calm", growing(100, 20))
    pod = await grown(world, "calm")
    assert not condition(pod) and await world.limit(made["metadata"]["uid"]) == 64 * MI
