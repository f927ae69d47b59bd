"""Policies in the recommender: an autoscaler names one, and gets the sizes that a backtest of the same usage has."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from tests.support.cluster.autoscaling import Autoscaled, autoscaled

from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import VPA, VPA_CHECKPOINT
from podfit.cli.explaining.autoscalers import policy_lines
from podfit.kit.clock import FakeClock, rfc3339
from podfit.vpa.flags import BadFlag
from podfit.vpa.history.base import History
from podfit.vpa.history.local import LocalHistory
from podfit.vpa.policies.base import Costs, Floats, Policy, UsageSeries, sizes_of
from podfit.vpa.policies.quality import quality_of
from podfit.vpa.policies.table import POLICIES
from podfit.vpa.recommender.config import RecommenderConfig, recommender_config
from podfit.vpa.recommender.decide.curves.curves import CurveKey, slot_of
from podfit.vpa.recommender.decide.curves.live import LivePolicies
from podfit.vpa.recommender.loop import Recommender
from podfit.vpa.recommender.serving.explain import USAGE

CONFIG = RecommenderConfig(address="")
NAMES = ("krr", "window", "rhythm", "auto")
MIB = 2**20


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server", FakeClock()) as made:
        yield made


@asynccontextmanager
async def recommending(
    cluster: Autoscaled,
    config: RecommenderConfig = CONFIG,
    history: History | None = None,
    policies: dict[str, Policy] | None = None,
) -> AsyncIterator[Recommender]:
    made = Recommender(cluster.client, config, history, cluster.clock)
    if policies is not None:
        assert made.cluster.fleet is not None
        made.policies.live = LivePolicies(made.cluster.fleet, config.shadow_policies, {**POLICIES, **policies})
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


def wave(slot: int) -> tuple[int, int]:
    """Millicores and bytes of a container with a daily rhythm."""
    return round(400 + 250 * math.sin(slot / 40)), round((300 + 60 * math.sin(slot / 60)) * MIB)


async def slots(
    cluster: Autoscaled,
    recommender: Recommender,
    number: int,
    pods: list[str],
    used: Callable[[int], tuple[int, int]] = wave,
) -> None:
    """Makes a pass in each of so many slots of five minutes."""
    assert isinstance(cluster.clock, FakeClock)
    for _ in range(number):
        await cluster.clock.advance(300)
        cpu, memory = used(slot_of(cluster.clock.now()))
        for pod in pods:
            cluster.use(pod, f"{cpu}m", str(memory))
        await recommender.one_pass()


async def sizes(cluster: Autoscaled, name: str, size: str = "target") -> dict[str, int]:
    vpa = await cluster.admin.get(VPA, "default", name)
    found = vpa["status"]["recommendation"]["containerRecommendations"][0][size]
    return {"cpu": Quantity.parse(found["cpu"]).milli, "memory": Quantity.parse(found["memory"]).value}


async def condition(cluster: Autoscaled, name: str, type: str) -> Any:
    vpa = await cluster.admin.get(VPA, "default", name)
    return next((known for known in vpa["status"]["conditions"] if known["type"] == type), None)


async def served(cluster: Autoscaled, name: str = "web", policy: str = "auto", **spec: Any) -> list[str]:
    pods = await cluster.deployment(name, 1)
    recommenders = [{"name": policy}] if policy else []
    await cluster.vpa(name, name, recommenders=recommenders, **spec)
    return pods


def backtested(recommender: Recommender, name: str, policy: str) -> dict[str, float]:
    """The cores and bytes at the end of a backtest of the container's curve."""
    curves, now = recommender.policies.live.curves, slot_of(recommender.clock.now())
    number = np.array([curves.numbers[CurveKey(("default", name), "main")]])
    found = {}
    for resource in ("cpu", "memory"):
        usage = curves.usage(number, int(curves.begins(number, now)[0]), now, resource)
        series = UsageSeries(np.concatenate([usage, np.full((1, 1), np.nan, np.float32)], 1), 300.0, resource)
        found[resource] = float(sizes_of(POLICIES[policy], series)[0, -1])
    return found


@pytest.mark.parametrize("name", NAMES)
async def test_an_autoscaler_that_names_a_policy_gets_what_a_backtest_of_its_usage_gives(
    cluster: Autoscaled, name: str
) -> None:
    pods = await served(cluster, policy=name)
    async with recommending(cluster) as recommender:
        await slots(cluster, recommender, 60, pods)
        expected = backtested(recommender, "web", name)
    target = await sizes(cluster, "web")
    assert target["cpu"] == pytest.approx(expected["cpu"] * 1000, abs=1)
    assert target["memory"] == pytest.approx(expected["memory"], rel=1e-6)
    assert await condition(cluster, "web", "PolicyFailed") is None


async def test_the_default_recommender_gives_the_same_numbers_beside_policies_and_shadows(
    cluster: Autoscaled, tmp_path: Path
) -> None:
    alone = await served(cluster, "alone", policy="")
    beside = await served(cluster, "beside", policy="auto")
    async with recommending(cluster, replace(CONFIG, shadow_policies=("krr", "auto"))) as recommender:
        await slots(cluster, recommender, 30, [*alone, *beside])
        with_policies = await sizes(cluster, "alone"), await sizes(cluster, "alone", "upperBound")
    async with autoscaled(tmp_path / "other", FakeClock()) as other:
        pods = await served(other, "alone", policy="")
        async with recommending(other) as recommender:
            await slots(other, recommender, 30, pods)
        assert (await sizes(other, "alone"), await sizes(other, "alone", "upperBound")) == with_policies


async def test_until_a_policy_has_decided_the_default_sizes_are_used(cluster: Autoscaled) -> None:
    pods = await served(cluster)
    async with recommending(cluster) as recommender:
        await slots(cluster, recommender, 1, pods, lambda _: (100, 500000000))
    assert await sizes(cluster, "web") == {"cpu": 126, "memory": 587804717}


async def test_sizes_are_the_same_after_a_restart_from_checkpoints(cluster: Autoscaled) -> None:
    pods = await served(cluster)
    async with recommending(cluster) as recommender:
        await slots(cluster, recommender, 50, pods)
        while recommender.policies.live.refresh(recommender.clock.now()) == 0 and not _hour_begins(recommender):
            await slots(cluster, recommender, 1, pods)
        await recommender.one_pass()
        before = await sizes(cluster, "web")
        curve = recommender.policies.live.curves.saved(CurveKey(("default", "web"), "main"))
    checkpoint = (await cluster.admin.list(VPA_CHECKPOINT, "default"))["items"][0]
    assert checkpoint["metadata"]["annotations"][USAGE] == curve
    async with recommending(cluster) as recommender:
        await recommender.one_pass()
        assert await sizes(cluster, "web") == before
        await slots(cluster, recommender, 20, pods)
        expected = backtested(recommender, "web", "auto")
    assert (await sizes(cluster, "web"))["cpu"] == pytest.approx(expected["cpu"] * 1000, abs=1)


def _hour_begins(recommender: Recommender) -> bool:
    """Whether the container of `web` is sized in this slot: then its checkpoint is complete."""
    curves = recommender.policies.live.curves
    phase = int(curves.phase[curves.numbers[CurveKey(("default", "web"), "main")]])
    return (slot_of(recommender.clock.now()) - phase) % 12 == 0


async def test_sizes_are_the_same_after_a_restart_from_the_local_history(cluster: Autoscaled, tmp_path: Path) -> None:
    pods = await served(cluster)
    file = tmp_path / "history.db"
    async with recommending(cluster, history=LocalHistory(file, clock=cluster.clock)) as recommender:
        await slots(cluster, recommender, 50, pods)
        before = await sizes(cluster, "web")
    checkpoints = (await cluster.admin.list(VPA_CHECKPOINT, "default"))["items"]
    assert all(USAGE not in (checkpoint["metadata"].get("annotations") or {}) for checkpoint in checkpoints)
    async with recommending(cluster, history=LocalHistory(file, clock=cluster.clock)) as recommender:
        await recommender.one_pass()
        after = await sizes(cluster, "web")
    assert after["cpu"] == pytest.approx(before["cpu"], rel=0.01)
    assert after["memory"] == pytest.approx(before["memory"], rel=0.01)


async def test_usage_in_a_checkpoint_that_cannot_be_read_is_named(
    cluster: Autoscaled, caplog: pytest.LogCaptureFixture
) -> None:
    pods = await served(cluster)
    async with recommending(cluster) as recommender:
        await slots(cluster, recommender, 14, pods)
    name = (await cluster.admin.list(VPA_CHECKPOINT, "default"))["items"][0]["metadata"]["name"]
    await cluster.admin.patch(VPA_CHECKPOINT, "default", name, {"metadata": {"annotations": {USAGE: "1:0:7:AAAA"}}})
    with caplog.at_level(logging.WARNING):
        async with recommending(cluster) as recommender:
            await slots(cluster, recommender, 14, pods)
            assert await condition(cluster, "web", "PolicyFailed") is None
    assert sum(USAGE in line.getMessage() for line in caplog.records) == 1


async def test_an_out_of_memory_kill_raises_the_size_in_the_same_pass(cluster: Autoscaled) -> None:
    (pod,) = await cluster.deployment("web", 1, memory="1Gi")
    await cluster.vpa("web", "web", recommenders=[{"name": "auto"}])
    async with recommending(cluster) as recommender:
        await slots(cluster, recommender, 40, [pod], lambda _: (100, 300 * MIB))
        before = await sizes(cluster, "web")
        at = rfc3339(cluster.clock.now())
        ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "startedAt": at, "finishedAt": at}}
        resources = {"requests": {"cpu": "100m", "memory": "1Gi"}}
        await cluster.running("default", pod, resources=resources, restartCount=1, lastState=ended)
        await cluster.caught_up([recommender.feed.pods])
        await recommender.one_pass()
    after = await sizes(cluster, "web")
    assert before["memory"] < 1024 * MIB
    assert after["memory"] >= 1.2 * 1024 * MIB


async def test_in_place_the_bounds_are_near_the_target_and_elsewhere_as_wide_as_ever(cluster: Autoscaled) -> None:
    near = await served(cluster, "near", updatePolicy={"updateMode": "InPlaceOrRecreate"})
    wide = await served(cluster, "wide", updatePolicy={"updateMode": "Recreate"})
    async with recommending(cluster) as recommender:
        await slots(cluster, recommender, 30, [*near, *wide])
    for name, expected in (("near", True), ("wide", False)):
        lower, target, upper = [await sizes(cluster, name, item) for item in ("lowerBound", "target", "upperBound")]
        for resource in target:
            assert lower[resource] <= target[resource] <= upper[resource]
            assert (upper[resource] <= 1.06 * target[resource]) is expected


@dataclass(frozen=True)
class Broken:
    """A policy with fixed answers."""

    answer: Callable[[UsageSeries], Floats]
    name: str = "auto"

    def sizes(self, series: UsageSeries, costs: Costs) -> Floats:
        return self.answer(series)


def _constant(value: float) -> Callable[[UsageSeries], Floats]:
    return lambda series: np.full(series.usage.shape, value, np.float32)


def _fails(series: UsageSeries) -> Floats:
    raise ZeroDivisionError("by nothing")


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (_constant(float("nan")), "policy auto returned no size of cpu"),
        (_constant(-1.0), "policy auto returned -1 as a size"),
        (_constant(float("inf")), "policy auto returned inf as a size"),
        (_constant(0.0), "policy auto returned 0 as a size of cpu"),
        (_constant(1e30), "policy auto returned 1e+30 as a size of cpu"),
        (lambda series: np.zeros((1, 1), np.float32), "policy auto returned sizes of shape (1, 1)"),
        (lambda series: np.ones(series.usage.shape, int), "policy auto returned sizes of type int64"),
        (_fails, "policy auto failed: ZeroDivisionError: by nothing"),
    ],
)
async def test_a_policy_that_returns_invalid_sizes_is_named_with_the_cause_and_replaced_by_the_default(
    cluster: Autoscaled, caplog: pytest.LogCaptureFixture, answer: Callable[[UsageSeries], Floats], cause: str
) -> None:
    pods = await served(cluster)
    with caplog.at_level(logging.WARNING, "podfit.vpa.recommender.intake.policies"):
        async with recommending(cluster, policies={"auto": Broken(answer)}) as recommender:
            await slots(cluster, recommender, 45, pods, lambda _: (100, 500000000))
    found = await condition(cluster, "web", "PolicyFailed")
    assert found["status"] == "True"
    assert cause in found["message"]
    assert await sizes(cluster, "web") == {"cpu": 126, "memory": 587804717}
    lines = [line.getMessage() for line in caplog.records if cause in line.getMessage()]
    assert len(lines) == 1, "it is said once, not every pass"


async def test_a_policy_that_fails_on_one_container_sizes_the_others_and_recovers(cluster: Autoscaled) -> None:
    bad = await served(cluster, "bad")
    good = await served(cluster, "good")

    def picky(series: UsageSeries) -> Floats:
        if series.resource == "cpu" and (series.usage > 5).any():
            raise ValueError("too much")
        return sizes_of(POLICIES["krr"], series)

    async with recommending(cluster, policies={"auto": Broken(picky)}) as recommender:
        for _ in range(30):
            for pods, cpu in ((bad, 6000), (good, 300)):
                for pod in pods:
                    cluster.use(pod, f"{cpu}m", "500000000")
            await slots(cluster, recommender, 1, [])
        assert (await condition(cluster, "bad", "PolicyFailed"))["status"] == "True"
        assert await condition(cluster, "good", "PolicyFailed") is None
        recommender.policies.live._policies = POLICIES
        await slots(cluster, recommender, 13, [])
        assert (await condition(cluster, "bad", "PolicyFailed"))["status"] == "False"


async def test_a_recommender_with_a_policys_name_serves_the_autoscalers_that_name_it(cluster: Autoscaled) -> None:
    pods = await served(cluster, policy="window")
    async with recommending(cluster, replace(CONFIG, recommender_name="window")) as recommender:
        await slots(cluster, recommender, 2, pods)
        assert recommender.plugin_of(recommender.cluster.vpas["default", "web"]) == "window"


async def test_shadows_are_judged_in_metrics_and_in_the_story(cluster: Autoscaled) -> None:
    pods = await served(cluster, policy="")
    config = replace(CONFIG, address="127.0.0.1:0", shadow_policies=("default", "krr", "auto"))
    async with recommending(cluster, config) as recommender:
        await slots(cluster, recommender, 60, pods)
        for policy in config.shadow_policies:
            for resource in ("cpu", "memory"):
                labels = {"policy": policy, "resource": resource}
                slack = recommender.registry.get_sample_value("vpa_recommender_policy_slack_ratio", labels)
                assert slack is not None
                assert 0 <= slack < 1
                judged = recommender.policies.live.judged(("default", "web"))["main"][policy][resource]
                assert slack == pytest.approx(judged.slack)
        story = await explained(recommender)
    lines = policy_lines(story["containers"]["main"]["policies"])
    assert [line.split()[1] for line in lines] == ["default", "krr", "auto"]
    assert all("idle" in line and "short" in line and "OOM" in line for line in lines)


async def explained(recommender: Recommender) -> Any:
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{recommender.http.url_here}/explain/default/web") as answer:
            return await answer.json()


async def test_a_shadows_quality_is_the_one_of_a_backtest(cluster: Autoscaled) -> None:
    pods = await served(cluster, policy="window")
    async with recommending(cluster, replace(CONFIG, shadow_policies=("krr",))) as recommender:
        await slots(cluster, recommender, 40, pods)
        while not _hour_begins(recommender):
            await slots(cluster, recommender, 1, pods)
        curves, now = recommender.policies.live.curves, slot_of(recommender.clock.now())
        number = np.array([curves.numbers[CurveKey(("default", "web"), "main")]])
        for name in ("krr", "window"):
            for resource in ("cpu", "memory"):
                usage = curves.usage(number, int(curves.begins(number, now)[0]), now, resource)
                series = UsageSeries(usage, 300.0, resource)
                expected = quality_of(series, sizes_of(POLICIES[name], series))
                found = recommender.policies.live.judged(("default", "web"))["main"][name][resource]
                assert (found.sized, found.short_samples) == pytest.approx((expected.sized, expected.short_samples))


async def test_the_story_of_an_autoscaler_with_a_policy_names_it(cluster: Autoscaled) -> None:
    pods = await served(cluster)
    async with recommending(cluster, replace(CONFIG, address="127.0.0.1:0")) as recommender:
        await slots(cluster, recommender, 30, pods)
        story = await explained(recommender)
    target = story["containers"]["main"]["resources"]["cpu"]["target"]
    assert story["recommender"] == "auto"
    assert target["steps"][0]["what"] == "policy auto, from usage over time"
    assert Quantity.parse(target["value"]).milli == (await sizes(cluster, "web"))["cpu"]


def test_a_shadow_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadFlag, match="unknown policy 'guess': it is one of default, krr"):
        recommender_config(["--shadow-policies=auto,guess"])
