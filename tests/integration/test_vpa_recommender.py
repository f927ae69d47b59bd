"""The recommender against podfit's API server: its results for generated usage are written to objects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.autoscaling import DEPLOYMENT, Autoscaled, autoscaled, owner_of
from tests.support.cluster.expect import all_become

from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import EVENT, POD, VPA, VPA_CHECKPOINT, kind_named
from podfit.kit.clock import FakeClock, rfc3339
from podfit.vpa.admission.decide.validate import Allowed, validate
from podfit.vpa.history.base import History
from podfit.vpa.recommender.config import RecommenderConfig
from podfit.vpa.recommender.loop import Recommender

CONFIG = RecommenderConfig(address="")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server", FakeClock()) as made:
        yield made


@asynccontextmanager
async def recommending(
    cluster: Autoscaled, config: RecommenderConfig = CONFIG, history: History | None = None
) -> AsyncIterator[Recommender]:
    made = Recommender(cluster.client, config, history, cluster.clock)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def passes(cluster: Autoscaled, recommender: Recommender, number: int = 1) -> None:
    for _ in range(number):
        await cluster.clock.advance(60)  # type: ignore[attr-defined]
        await recommender.one_pass()


def condition(vpa: Any, type: str) -> Any:
    return next((known for known in vpa["status"].get("conditions") or [] if known["type"] == type), None)


async def test_usage_becomes_a_recommendation(cluster: Autoscaled) -> None:
    for pod in await cluster.deployment("web"):
        cluster.use(pod, "100m", "500000000")
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 6)
    vpa = await cluster.admin.get(VPA, "default", "web")
    entry = vpa["status"]["recommendation"]["containerRecommendations"][0]
    assert entry["containerName"] == "main"
    assert entry["target"] == {"cpu": "126m", "memory": "587804717"}
    assert entry["uncappedTarget"] == entry["target"]
    assert condition(vpa, "RecommendationProvided")["status"] == "True"
    assert condition(vpa, "LowConfidence")["status"] == "True"
    assert vpa["status"]["observedGeneration"] == vpa["metadata"]["generation"]


async def test_autoscalers_are_counted_with_what_this_pass_recommends(cluster: Autoscaled) -> None:
    (pod,) = await cluster.deployment("web", 1)
    cluster.use(pod, "100m", "500000000")
    await cluster.vpa("web", "web", updatePolicy={"updateMode": "Off"})
    labels = {"update_mode": "Off", "api": "v1", "matches_pods": "true", "unsupported_config": "false"}
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender)
        for provided, number in (("true", 1), ("false", 0)):
            asked = {**labels, "has_recommendation": provided}
            assert recommender.registry.get_sample_value("vpa_recommender_vpa_objects_count", asked) == number


async def test_an_unchanged_status_is_not_written_again(cluster: Autoscaled) -> None:
    for pod in await cluster.deployment("web"):
        cluster.use(pod, "100m", "500000000")
    await cluster.vpa("web", "web")
    quick = replace(CONFIG, model=replace(CONFIG.model, confidence_interval_cpu=60, confidence_interval_memory=60))
    async with recommending(cluster, quick) as recommender:
        await passes(cluster, recommender, 3)
        cluster.metered.usage.clear()
        await passes(cluster, recommender, 2)
        before = len(
            [
                request
                for request in cluster.metered.requests
                if request[0] == "PATCH" and request[1].endswith("/status")
            ]
        )
        await passes(cluster, recommender, 3)
        after = len(
            [
                request
                for request in cluster.metered.requests
                if request[0] == "PATCH" and request[1].endswith("/status")
            ]
        )
    assert before == after > 0


async def test_checkpoints_carry_what_was_learned_to_the_next_recommender(cluster: Autoscaled) -> None:
    for pod in await cluster.deployment("web"):
        cluster.use(pod, "2", "2000000000")
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 30)
    checkpoint = await cluster.admin.get(VPA_CHECKPOINT, "default", "web-main")
    assert checkpoint["status"]["version"] == "v3"
    assert checkpoint["status"]["totalSamplesCount"] == 60
    cluster.metered.usage.clear()
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender)
        vpa = recommender.cluster.vpas["default", "web"]
        assert vpa.initial["main"].count == 60
    vpa_object = await cluster.admin.get(VPA, "default", "web")
    target = vpa_object["status"]["recommendation"]["containerRecommendations"][0]["target"]
    assert Quantity.parse(target["cpu"]).milli > 2000


async def test_corrupt_and_foreign_checkpoints_are_reported_and_harm_nothing(cluster: Autoscaled) -> None:
    for pod in await cluster.deployment("web"):
        cluster.use(pod, "100m", "500000000")
    await cluster.vpa("web", "web")
    for name, status in (
        ("web-main", {"version": "v9"}),
        ("web-side", {"version": "v3", "cpuHistogram": {"bucketWeights": {"999": 5}, "totalWeight": 1}}),
    ):
        spec = {"vpaObjectName": "web", "containerName": name.removeprefix("web-")}
        body = {
            "apiVersion": VPA_CHECKPOINT.api_version,
            "kind": VPA_CHECKPOINT.kind,
            "metadata": {"name": name},
            "spec": spec,
            "status": status,
        }
        await cluster.admin.create(VPA_CHECKPOINT, body, "default")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender)
        await recommender.events.flush()
    events = await cluster.admin.list(kind_named("Event"), "default")
    assert [item["reason"] for item in events["items"]] == ["CheckpointUnusable"]
    vpa = await cluster.admin.get(VPA, "default", "web")
    assert len(vpa["status"]["recommendation"]["containerRecommendations"]) == 1


async def test_checkpoints_of_deleted_autoscalers_are_collected(cluster: Autoscaled) -> None:
    for pod in await cluster.deployment("web"):
        cluster.use(pod, "100m", "500000000")
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender)
        assert await cluster.admin.find(VPA_CHECKPOINT, "default", "web-main")
        await cluster.admin.delete(VPA, "default", "web")
        await passes(cluster, recommender, 11)
    assert await cluster.admin.find(VPA_CHECKPOINT, "default", "web-main") is None


async def test_without_pods_the_conditions_report_it(cluster: Autoscaled) -> None:
    await cluster.deployment("web", pods=0)
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender)
    vpa = await cluster.admin.get(VPA, "default", "web")
    assert condition(vpa, "NoPodsMatched")["message"] == "No pods match this VPA object"
    assert condition(vpa, "RecommendationProvided")["status"] == "False"


async def test_history_survives_a_target_that_vanishes_and_returns(cluster: Autoscaled) -> None:
    for pod in await cluster.deployment("web"):
        cluster.use(pod, "2", "2000000000")
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 5)
        deployment = await cluster.admin.get(DEPLOYMENT, "default", "web")
        await cluster.admin.delete(DEPLOYMENT, "default", "web")
        await passes(cluster, recommender, 2)
        vpa = await cluster.admin.get(VPA, "default", "web")
        assert "does not exist" in condition(vpa, "ConfigUnsupported")["message"]
        assert vpa["status"]["recommendation"]["containerRecommendations"][0]["target"]["cpu"] == "2406m"
        fresh = {"metadata": {"name": "web"}, "spec": deployment["spec"]}
        await cluster.admin.create(DEPLOYMENT, {"apiVersion": "apps/v1", "kind": "Deployment", **fresh}, "default")
        await passes(cluster, recommender, 2)
    vpa = await cluster.admin.get(VPA, "default", "web")
    assert condition(vpa, "ConfigUnsupported") is None
    assert vpa["status"]["recommendation"]["containerRecommendations"][0]["target"]["cpu"] == "2406m"


async def test_metrics_that_are_gone_show_in_a_condition_and_come_back(cluster: Autoscaled) -> None:
    for pod in await cluster.deployment("web"):
        cluster.use(pod, "100m", "500000000")
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 2)
        cluster.metered.gone = True
        await passes(cluster, recommender)
        vpa = await cluster.admin.get(VPA, "default", "web")
        assert condition(vpa, "MetricsUnavailable")["status"] == "True"
        assert vpa["status"]["recommendation"]["containerRecommendations"]
        cluster.metered.gone = False
        await passes(cluster, recommender)
        vpa = await cluster.admin.get(VPA, "default", "web")
        assert condition(vpa, "MetricsUnavailable")["status"] == "False"


async def test_odd_samples_change_no_number(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", pods=1)
    cluster.use(pods[0], "100m", "500000000")
    await cluster.vpa("web", "web")

    def odd(timestamp: Any, cpu: Any, memory: Any) -> dict[str, Any]:
        return {
            "metadata": {"namespace": "default", "name": pods[0]},
            "timestamp": timestamp,
            "containers": [{"name": "main", "usage": {"cpu": cpu, "memory": memory}}],
        }

    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 2)
        cluster.metered.extra = [
            odd("2023-11-14T22:10:00Z", "NaN", "-5"),
            odd("2030-01-01T00:00:00Z", "900", "900Gi"),
            odd("yesterday", "900", "900Gi"),
            odd(None, "900", "900Gi"),
            odd("2023-11-14T22:10:00Z", "900", "900Gi"),
            odd("2023-11-14T22:15:20Z", "-900", {"a": 1}),
            {"metadata": None},
            {"metadata": {"namespace": "default", "name": "nobody"}, "containers": []},
        ]
        await passes(cluster, recommender, 3)
    vpa = await cluster.admin.get(VPA, "default", "web")
    target = vpa["status"]["recommendation"]["containerRecommendations"][0]["target"]
    assert target == {"cpu": "126m", "memory": "587804717"}


async def test_a_clock_that_goes_back_does_not_stop_learning(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", pods=1)
    cluster.use(pods[0], "100m", "500000000")
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 2)
        cluster.clock._now -= 7200  # type: ignore[attr-defined]
        await passes(cluster, recommender, 3)
        assert recommender.cluster.vpas["default", "web"].aggregates
        assert sum(state.count for state in recommender.cluster.aggregates.values()) == 5


async def test_an_oom_kill_raises_memory(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", pods=1, memory="500Mi")
    cluster.use(pods[0], "100m", "300000000")
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 2)
        ended = {
            "reason": "OOMKilled",
            "exitCode": 137,
            "startedAt": "2023-11-14T22:13:20Z",
            "finishedAt": "2023-11-14T22:15:21Z",
        }
        await cluster.running(
            "default",
            pods[0],
            restartCount=1,
            lastState={"terminated": ended},
            resources={"requests": {"cpu": "100m", "memory": "500Mi"}},
        )
        await passes(cluster, recommender, 2)
    vpa = await cluster.admin.get(VPA, "default", "web")
    target = vpa["status"]["recommendation"]["containerRecommendations"][0]["target"]
    assert Quantity.parse(target["memory"]).value > 600 * 2**20


async def test_renamed_containers_expire(cluster: Autoscaled) -> None:
    pods = await cluster.deployment("web", pods=1)
    cluster.use(pods[0], "100m", "500000000")
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 2)
        await cluster.admin.delete(POD, "default", pods[0], {"gracePeriodSeconds": 0})
        await cluster.pod("web-new", labels={"app": "web"}, container="renamed")
        cluster.metered.usage.clear()
        cluster.use("web-new", "100m", "500000000", container="renamed")
        await passes(cluster, recommender)
        await cluster.clock.advance(9 * 86400)  # type: ignore[attr-defined]
        await passes(cluster, recommender, 2)
    vpa = await cluster.admin.get(VPA, "default", "web")
    names = [
        recommendation["containerName"]
        for recommendation in vpa["status"]["recommendation"]["containerRecommendations"]
    ]
    assert names == ["renamed"]


async def test_a_resource_scaled_horizontally_is_named_in_a_condition(cluster: Autoscaled) -> None:
    for pod in await cluster.deployment("web"):
        cluster.use(pod, "100m", "500000000")
    await cluster.vpa("web", "web")
    hpa = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "wide"},
        "spec": {
            "maxReplicas": 5,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
                }
            ],
        },
    }
    await cluster.admin.create(kind_named("HorizontalPodAutoscaler"), hpa, "default")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender)
    vpa = await cluster.admin.get(VPA, "default", "web")
    assert "cpu by HorizontalPodAutoscaler wide" in condition(vpa, "ResourceScaledHorizontally")["message"]


async def test_the_batch_recommender_sizes_cpu_by_the_mean(cluster: Autoscaled) -> None:
    await cluster.deployment("crunch", pods=0)
    await cluster.pod("crunch-a", labels={"app": "crunch"}, restartPolicy="Never")
    await cluster.vpa("crunch", "crunch", recommenders=[{"name": "batch"}])
    async with recommending(cluster) as recommender:
        for number in range(20):
            cluster.use("crunch-a", "4" if number % 5 == 0 else "100m", "500000000")
            await passes(cluster, recommender)
        assert recommender.plugin_of(recommender.cluster.vpas["default", "crunch"]) == "batch"
    vpa = await cluster.admin.get(VPA, "default", "crunch")
    target = vpa["status"]["recommendation"]["containerRecommendations"][0]["target"]
    # 20 % of the time 4 cores, else 0.1: 0.88 on average, and a margin; the 90th percentile would be above 4.
    assert 880 <= Quantity.parse(target["cpu"]).milli <= 1150


async def test_other_recommenders_autoscalers_are_not_changed(cluster: Autoscaled) -> None:
    for pod in await cluster.deployment("web"):
        cluster.use(pod, "100m", "500000000")
    await cluster.vpa("web", "web", recommenders=[{"name": "somebody-elses"}])
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 2)
    vpa = await cluster.admin.get(VPA, "default", "web")
    assert not vpa.get("status")


def _ended(at: str) -> Any:
    return {"terminated": {"reason": "OOMKilled", "exitCode": 137, "startedAt": at, "finishedAt": at}}


def _counted(recommender: Recommender) -> float | None:
    return recommender.registry.get_sample_value("vpa_recommender_oom_events_total", {"outcome": "counted"})


async def test_each_kill_of_a_container_in_a_crash_loop_is_counted_once(cluster: Autoscaled) -> None:
    (pod,) = await cluster.deployment("web", pods=1, memory="500Mi")
    cluster.use(pod, "100m", "300000000")
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender)
        for kill in range(7):
            ended = _ended(rfc3339(cluster.clock.now()))
            waits = {"waiting": {"reason": "CrashLoopBackOff"}}
            await cluster.running("default", pod, restartCount=kill, state=waits, lastState=ended)
            await passes(cluster, recommender)
            await cluster.running("default", pod, restartCount=kill + 1, lastState=ended)
            await passes(cluster, recommender)
        assert _counted(recommender) == 7


async def test_a_kill_before_the_first_sample_raises_memory(cluster: Autoscaled) -> None:
    (pod,) = await cluster.deployment("web", pods=1, memory="500Mi")
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        await cluster.running("default", pod, state=_ended(rfc3339(cluster.clock.now())))
        await cluster.clock.advance(30)  # type: ignore[attr-defined]
        cluster.use(pod, "100m", "300000000")
        await passes(cluster, recommender, 2)
        assert _counted(recommender) == 1
    vpa = await cluster.admin.get(VPA, "default", "web")
    target = vpa["status"]["recommendation"]["containerRecommendations"][0]["target"]
    assert Quantity.parse(target["memory"]).value > 600 * 2**20


async def test_a_kill_while_no_recommender_ran_is_counted_by_the_next_one_alone(cluster: Autoscaled) -> None:
    (pod,) = await cluster.deployment("web", pods=1, memory="500Mi")
    cluster.use(pod, "100m", "300000000")
    await cluster.vpa("web", "web")
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender)
    await cluster.clock.advance(60)  # type: ignore[attr-defined]
    ended = _ended(rfc3339(cluster.clock.now()))
    await cluster.running("default", pod, restartCount=1, lastState=ended)
    found = []
    for _ in range(2):
        async with recommending(cluster) as recommender:
            await passes(cluster, recommender)
            found.append(_counted(recommender))
    assert found == [1, 0]


async def test_a_cron_job_without_template_labels_has_its_own_pods_alone(cluster: Autoscaled) -> None:
    (other,) = await cluster.deployment("web", 1)
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}
    cron_job = await cluster.make(kind_named("CronJob"), "night", spec)
    job = await cluster.make(kind_named("Job"), "night-1", {"template": template}, owner=cron_job)
    await cluster.pod("night-1-a", labels={"batch.kubernetes.io/job-name": "night-1"}, owner=owner_of(job))
    cluster.use(other, "4", "4000000000")
    cluster.use("night-1-a", "100m", "500000000")
    await cluster.vpa("night", "", targetRef={"apiVersion": "batch/v1", "kind": "CronJob", "name": "night"})
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 2)
        assert recommender.cluster.vpas["default", "night"].pods == {("default", "night-1-a")}
        await cluster.admin.delete(kind_named("Job"), "default", "night-1")
        later = await cluster.make(kind_named("Job"), "night-2", {"template": template}, owner=cron_job)
        await cluster.pod("night-2-a", labels={"batch.kubernetes.io/job-name": "night-2"}, owner=owner_of(later))
        await passes(cluster, recommender, 2)
        vpa = recommender.cluster.vpas["default", "night"]
        assert vpa.pods == {("default", "night-1-a"), ("default", "night-2-a")}
        assert len(vpa.aggregates) == 2, "each run has its own, and earlier runs still count"
    found = await cluster.admin.get(VPA, "default", "night")
    assert found["status"]["recommendation"]["containerRecommendations"][0]["target"]["cpu"] == "126m"


async def test_the_younger_of_two_autoscalers_for_the_same_pods_names_the_older_one(cluster: Autoscaled) -> None:
    (pod,) = await cluster.deployment("web", 1)
    cluster.use(pod, "100m", "500000000")
    await cluster.vpa("a-first", "web")
    await cluster.vpa("b-second", "web")
    await cluster.vpa("c-watching", "web", updatePolicy={"updateMode": "Off"})
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender)
        words = (
            "VerticalPodAutoscaler a-first is older and selects the same pods: it "
            "changes them, this one only recommends."
        )
        second = await cluster.admin.get(VPA, "default", "b-second")
        assert condition(second, "Overruled")["message"] == words
        for other in ("a-first", "c-watching"):
            assert condition(await cluster.admin.get(VPA, "default", other), "Overruled") is None
        event = await becomes_event(cluster, "Overruled")
        assert (event["involvedObject"]["name"], event["message"]) == ("b-second", words)
        await cluster.admin.delete(VPA, "default", "a-first")
        await passes(cluster, recommender, 2)
        second = await cluster.admin.get(VPA, "default", "b-second")
        assert condition(second, "Overruled")["status"] == "False"


async def becomes_event(cluster: Autoscaled, reason: str) -> Any:
    found = await all_become(
        cluster.admin, EVENT, "default", lambda events: any(event["reason"] == reason for event in events)
    )
    return next(event for event in found if event["reason"] == reason)


@pytest.mark.parametrize(
    ("least", "most", "words"),
    [
        ("2", "1", 'maxAllowed[cpu]: Invalid value: "1": max resource for cpu is lower than min of "2"'),
        ("-1", "1", 'minAllowed[cpu]: Invalid value: "-1": must be greater than or equal to 0'),
        ("0", "-1", 'maxAllowed[cpu]: Invalid value: "-1": max resource for cpu is lower than min of "0"'),
    ],
)
async def test_a_policy_that_cannot_be_obeyed_is_refused_by_webhook_and_recommender_in_the_same_words(
    cluster: Autoscaled, least: str, most: str, words: str
) -> None:
    (pod,) = await cluster.deployment("web", 1)
    cluster.use(pod, "100m", "500000000")
    policy = {"containerName": "*", "minAllowed": {"cpu": least}, "maxAllowed": {"cpu": most}}
    vpa = await stored_anyway(cluster, {"containerPolicies": [policy]})
    message = f"spec.resourcePolicy.containerPolicies[0].{words}"
    assert message in [str(error) for error in validate(vpa, Allowed())]
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender)
    found = await cluster.admin.get(VPA, "default", "web")
    assert condition(found, "ConfigUnsupported")["message"] == f"Cannot read {message}"
    assert not found["status"].get("recommendation")


async def stored_anyway(cluster: Autoscaled, policy: Any) -> Any:
    """An autoscaler with a policy that the definition's rules reject, as stored by a server without these rules."""
    made = await cluster.vpa("web", "web")
    objects = cluster.server.core.writer.objects
    record = objects.record(VPA, "default", "web")
    assert record is not None
    stored = {**made, "spec": {**made["spec"], "resourcePolicy": policy}}
    await objects.put(VPA, record.key, stored, record.modified)
    return stored
