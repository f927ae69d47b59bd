"""Containers whose language runtime sizes its own heap: the recommender does not go below it, and reports that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.autoscaling import Autoscaled, autoscaled

from podfit.api.pods.squeeze import ANNOTATION, MEMORY, asked_for, found_in, result
from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import POD, VPA
from podfit.cli.explaining.autoscalers import explain_vpa
from podfit.client.rest import STRATEGIC
from podfit.kit.clock import FakeClock
from podfit.vpa.recommender.config import RecommenderConfig
from podfit.vpa.recommender.loop import Recommender
from podfit.vpa.recommender.serving.explain import explain
from podfit.vpa.runtimes.heaps import MI

HEAP = {"JAVA_TOOL_OPTIONS": "-Xmx1g"}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server", FakeClock()) as made:
        yield made


async def recommended(cluster: Autoscaled, config: RecommenderConfig, passes: int = 5) -> tuple[dict[str, Any], Any]:
    """The recommendation of container `main`, and the recommender's explanation."""
    await cluster.vpa("web", "web")
    recommender = Recommender(cluster.client, config, clock=cluster.clock)
    await recommender.start()
    try:
        clock = cluster.clock
        assert isinstance(clock, FakeClock)
        for _ in range(passes):
            for number in range(2):
                cluster.use(f"web-1-{number}", "100m", "300Mi")
            await recommender.one_pass()
            await clock.advance(60)
        [vpa] = recommender.cluster.vpas.values()
        heaps = recommender.heaps_of(vpa)
        story = explain(vpa.object, recommender.cluster.merged(vpa), recommender.cluster.config, heaps=heaps)
    finally:
        await recommender.stop()
    found = await cluster.admin.get(VPA, "default", "web")
    return found["status"]["recommendation"]["containerRecommendations"][0], story["containers"]["main"]


def memory(entry: dict[str, Any], size: str = "target") -> int:
    return Quantity.parse(entry[size]["memory"]).value


async def test_no_size_of_memory_is_below_the_heap(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 2, env=HEAP)
    entry, story = await recommended(cluster, RecommenderConfig(address=""))
    assert memory(entry) == memory(entry, "lowerBound") == 1024 * MI + 1024 * MI // 10
    target = story["resources"]["memory"]["target"]
    assert target["value"] == entry["target"]["memory"], "the explanation leads to the published number"
    assert "-Xmx1g" in target["steps"][-1]["what"] and "restart" in story["runtime"]["restart"]
    lines, _ = await explain_vpa(cluster.client, await cluster.admin.get(VPA, "default", "web"))
    assert any("-Xmx1g" in line for line in lines)


async def test_the_flag_switches_it_off(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 2, env=HEAP)
    base = RecommenderConfig(address="")
    entry, story = await recommended(cluster, replace(base, model=replace(base.model, respect_heap_settings=False)))
    assert memory(entry) < 512 * MI and "runtime" not in story


async def test_pods_without_such_settings_get_the_same_numbers_either_way(cluster: Autoscaled) -> None:
    await cluster.deployment("web", 2, env={"COLOUR": "-Xmx1g", "GOMEMLIMIT": "off"})
    entry, story = await recommended(cluster, RecommenderConfig(address=""))
    assert memory(entry) < 512 * MI and "runtime" not in story


async def test_a_heap_that_is_a_part_of_the_limit_changes_no_number_and_says_that_a_restart_is_needed(
    cluster: Autoscaled,
) -> None:
    await cluster.deployment("web", 2, env={"JAVA_TOOL_OPTIONS": "-XX:MaxRAMPercentage=75"})
    entry, story = await recommended(cluster, RecommenderConfig(address=""))
    assert memory(entry) < 512 * MI
    assert story["runtime"]["restart"].endswith("takes effect after a restart")


async def test_the_working_set_of_a_squeeze_probe_lowers_the_recommendation_if_enabled(
    cluster: Autoscaled,
) -> None:
    await cluster.deployment("web", 2, memory="1Gi")
    vpa = await cluster.vpa("web", "web")
    recommender = Recommender(cluster.client, RecommenderConfig(address=""), clock=cluster.clock)
    await recommender.start()
    clock = cluster.clock
    assert isinstance(clock, FakeClock)

    async def target() -> int:
        for number in range(2):
            cluster.use(f"web-1-{number}", "100m", "900Mi")
        await recommender.one_pass()
        await clock.advance(60)
        found = await cluster.admin.get(VPA, "default", "web")
        return memory(found["status"]["recommendation"]["containerRecommendations"][0])

    async def seen(said: Any) -> None:
        while not said():
            await asyncio.sleep(0.001)

    try:
        before = await target()
        change = result({"main": 300 * MI}, "2026-01-01T00:00:00Z")
        await cluster.admin.patch(POD, "default", "web-1-0", change, "status", STRATEGIC)
        await seen(lambda: found_in(recommender.feed.pods.get("default", "web-1-0") or {}))
        assert await target() >= before > 900 * MI, "nobody asked for it"
        change = {"metadata": {"annotations": {ANNOTATION: MEMORY}}}
        await cluster.admin.patch(VPA, "default", vpa["metadata"]["name"], change)
        await seen(lambda: asked_for(recommender.caches.vpas.get("default", "web") or {}))
        assert await target() == 345 * MI
        [known] = recommender.cluster.vpas.values()
        found = recommender.working_sets(known)
        story = explain(known.object, recommender.cluster.merged(known), recommender.cluster.config, found=found)
        assert story["containers"]["main"]["resources"]["memory"]["target"]["value"] == "345Mi"
    finally:
        await recommender.stop()
