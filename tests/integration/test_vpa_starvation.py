"""Containers that use up their CPU limit: how fast recommender and updater give them enough."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.autoscaling import Autoscaled, autoscaled
from tests.support.cluster.loops import Loops, Phases

from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import VPA
from podfit.kit.clock import FakeClock
from podfit.vpa.recommender.config import RecommenderConfig

IN_PLACE = {"updateMode": "InPlaceOrRecreate", "minReplicas": 1}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server", FakeClock()) as made:
        yield made


async def target(cluster: Autoscaled) -> int:
    vpa = await cluster.admin.get(VPA, "default", "web")
    return Quantity.parse(vpa["status"]["recommendation"]["containerRecommendations"][0]["target"]["cpu"]).milli


async def condition(cluster: Autoscaled, type: str) -> Any:
    vpa = await cluster.admin.get(VPA, "default", "web")
    return next((known["status"] for known in vpa["status"]["conditions"] if known["type"] == type), None)


async def starved(cluster: Autoscaled, cpu: str, **policy: Any) -> list[str]:
    pods = await cluster.deployment("web", 1, cpu=cpu, memory="300Mi", limits={"cpu": cpu, "memory": "600Mi"})
    await cluster.vpa("web", "web", updatePolicy=policy or IN_PLACE)
    return pods


async def test_a_step_from_a_tenth_to_two_cores_is_met_within_two_passes_of_the_updater(cluster: Autoscaled) -> None:
    async with Loops(cluster, await starved(cluster, "100m")) as loops:
        for _ in range(60):
            await loops.minute(0.08)
        assert await target(cluster) < 110
        limits = [await loops.minute(2.0) for _ in range(2)]
    assert limits[-1] >= 2000, limits


@pytest.mark.parametrize("recommender_at", [1, 20, 40, 60])
@pytest.mark.parametrize("updater_at", [1, 30, 59])
async def test_a_step_is_met_within_two_intervals_whenever_recommender_and_updater_pass(
    cluster: Autoscaled, recommender_at: int, updater_at: int
) -> None:
    async with Phases(cluster, await starved(cluster, "100m"), recommender_at, updater_at) as phases:
        for _ in range(300):
            await phases.second(0.08)
        seconds = await phases.seconds_until_met(2.0, 600)
        assert seconds <= 2 * phases.updater.config.updater_interval


async def test_a_step_is_met_as_fast_after_the_autoscaler_has_lowered_the_limit(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", 1, cpu="100m", limits={"cpu": "100m", "memory": "1Gi"})
    await cluster.vpa("web", "web", updatePolicy=IN_PLACE)
    async with Loops(cluster, pods) as loops:
        before = [await loops.minute(0.08) for _ in range(120)]
        limits = [await loops.minute(2.0) for _ in range(2)]
    assert before[-1] < 100
    assert limits[-1] >= 2000, limits


async def test_a_container_at_its_limit_is_not_left_within_bounds(cluster: Autoscaled) -> None:
    async with Loops(cluster, await starved(cluster, "300m")) as loops:
        limits = [await loops.minute(2.0) for _ in range(4)]
    assert limits[-1] >= 2000
    assert await condition(cluster, "CPUStarved") == "False"


async def test_a_starved_container_is_named_in_a_condition(cluster: Autoscaled) -> None:
    async with Loops(cluster, await starved(cluster, "300m", updateMode="Off")) as loops:
        for _ in range(8):
            await loops.minute(2.0)
    assert await condition(cluster, "CPUStarved") == "True"


async def test_raised_sizes_are_kept_while_the_load_lasts(cluster: Autoscaled) -> None:
    async with Loops(cluster, await starved(cluster, "100m")) as loops:
        for _ in range(600):
            await loops.minute(0.05)
        limits = [await loops.minute(2.0) for _ in range(40)]
    assert min(limits[3:]) >= 2000, limits


async def test_raised_sizes_are_lowered_after_the_load(cluster: Autoscaled) -> None:
    async with Loops(cluster, await starved(cluster, "100m")) as loops:
        for _ in range(120):
            await loops.minute(0.05)
        for _ in range(6):
            await loops.minute(2.0)
        limits = [await loops.minute(0.05) for _ in range(90)]
    assert limits[-1] < 1000, limits


async def test_a_short_burst_evicts_nothing(cluster: Autoscaled) -> None:
    pods = await starved(cluster, "200m", updateMode="Recreate", minReplicas=1)
    async with Loops(cluster, pods) as loops:
        for cores in (2.0, 2.0, 0.1, 0.1):
            await loops.minute(cores)
            assert await target(cluster) < 300


async def test_the_signal_can_be_switched_off(cluster: Autoscaled) -> None:
    base = RecommenderConfig(address="")
    off = replace(base, model=replace(base.model, starved_above=0.0))
    async with Loops(cluster, await starved(cluster, "300m"), off) as loops:
        for _ in range(5):
            await loops.minute(2.0)
        assert await target(cluster) <= 500
    assert await condition(cluster, "CPUStarved") is None


async def test_bursts_that_are_throttled_raise_the_limit_until_it_holds_them_and_no_further(
    cluster: Autoscaled,
) -> None:
    """Average usage is a third of the limit; bursts of 0.8 cores reach it."""
    async with Loops(cluster, await starved(cluster, "300m")) as loops:
        for _ in range(60):
            await loops.minute(0.1)
        limits = [await loops.minute(0.1, bursts=0.8) for _ in range(300)]
        assert await condition(cluster, "CPUStarved") == "False"
    assert 800 <= limits[30] < 2 * 800, limits
    assert limits[30:] == [limits[30]] * 270, "what holds the bursts stays"


async def test_a_container_whose_bursts_are_throttled_is_named_in_a_condition(cluster: Autoscaled) -> None:
    async with Loops(cluster, await starved(cluster, "300m", updateMode="Off")) as loops:
        for _ in range(8):
            await loops.minute(0.1, bursts=0.8)
    found = await cluster.admin.get(VPA, "default", "web")
    [reported] = [known for known in found["status"]["conditions"] if known["type"] == "CPUStarved"]
    assert (reported["status"], reported["reason"]) == ("True", "BurstsThrottled")
    assert await target(cluster) == 517


@pytest.mark.parametrize(
    ("minutes", "part", "flags", "policy"),
    [
        (3, "400m", {}, {}),
        (60, "200m", {}, {}),
        (60, "400m", {"throttled_above": 0.0}, {}),
        (60, "400m", {"starved_above": 0.0}, {}),
        (60, "400m", {}, {"controlledValues": "RequestsOnly"}),
    ],
)
async def test_bursts_change_no_number_if_they_are_rare_or_switched_off_or_limits_stay(
    cluster: Autoscaled, minutes: int, part: str, flags: dict[str, float], policy: dict[str, str]
) -> None:
    base = RecommenderConfig(address="")
    config = replace(base, model=replace(base.model, **flags))  # type: ignore[arg-type]
    pods = await starved(cluster, "300m", updateMode="Off")
    policies = {"containerPolicies": [{"containerName": "*", **policy}]}
    await cluster.admin.patch(VPA, "default", "web", {"spec": {"resourcePolicy": policies}})
    async with Loops(cluster, pods, config) as loops:
        for _ in range(5):
            await loops.minute(0.1)
        before = await target(cluster)
        for _ in range(minutes):
            await loops.minute(0.1, bursts=0.8, part=part)
        assert await target(cluster) == before
