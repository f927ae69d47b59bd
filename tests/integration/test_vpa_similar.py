"""Workloads without samples of their own: they start from the usage of similar containers, and ignore it once
they have enough samples.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.autoscaling import Autoscaled, autoscaled
from tests.support.cluster.expect import all_become, becomes
from tests.support.cluster.loops import EAGER
from tests.support.cluster.whole import Whole, pod_spec, workload

from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import LEASE, POD, VPA, kind_named
from podfit.cli.explaining.autoscalers import explain_vpa, why_numbers
from podfit.kit.clock import FakeClock, rfc3339
from podfit.vpa.recommender.config import RecommenderConfig, recommender_config
from podfit.vpa.recommender.loop import Recommender
from podfit.vpa.recommender.serving.answers import Answers
from podfit.vpa.recommender.serving.queries import status_for
from podfit.vpa.updater.loop import Updater

DEPLOYMENT = kind_named("Deployment")
SIMILAR = "RecommendedFromSimilar"
CONFIG = RecommenderConfig(address="")
IN_PLACE = {"updateMode": "InPlaceOrRecreate"}
HOUR = 70
"""Passes, one a minute, after which a container has enough samples to size similar ones."""


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    """Deployment web has used 800m and 900 MB for a while; Deployment new, with the same program, has no samples."""
    async with autoscaled(tmp_path / "server", FakeClock()) as made:
        for pod in await made.deployment("web", 2):
            made.use(pod, "800m", "900000000")
        await made.vpa("web", "web")
        yield made


@asynccontextmanager
async def recommending(cluster: Autoscaled, *flags: str, minutes: int = HOUR) -> AsyncIterator[Recommender]:
    made = Recommender(cluster.client, recommender_config(list(flags), CONFIG), None, cluster.clock)
    await made.start()
    try:
        await passes(cluster, made, minutes)
        yield made
    finally:
        await made.stop()


async def passes(cluster: Autoscaled, part: Recommender | Updater, number: int = 1) -> None:
    for _ in range(number):
        await cluster.clock.advance(60)  # type: ignore[attr-defined]
        await part.one_pass()


async def new_deployment(cluster: Autoscaled, namespace: str = "default", **policy: Any) -> list[str]:
    pods = await cluster.deployment("new", 2, namespace, cpu="100m", memory="100Mi")
    await cluster.vpa("new", "new", namespace, updatePolicy=policy or IN_PLACE)
    return pods


async def status_of(cluster: Autoscaled, name: str = "new", namespace: str = "default") -> Any:
    return (await cluster.admin.get(VPA, namespace, name)).get("status") or {}


def condition(status: Any, type: str) -> Any:
    return next((known for known in status.get("conditions") or [] if known["type"] == type), {"status": "absent"})


def entry(status: Any) -> Any:
    [found] = (status.get("recommendation") or {}).get("containerRecommendations") or [{}]
    return found


async def requests(cluster: Autoscaled, pod: str) -> Any:
    found = await cluster.admin.get(POD, "default", pod)
    return found["spec"]["containers"][0]["resources"]["requests"]


async def test_a_workload_without_samples_starts_from_what_similar_containers_use(cluster: Autoscaled) -> None:
    async with recommending(cluster) as recommender:
        await new_deployment(cluster)
        await passes(cluster, recommender)
    status, known = await status_of(cluster), entry(await status_of(cluster, "web"))
    assert entry(status)["target"] == known["target"]
    for resource in ("cpu", "memory"):
        low, high = (Quantity.parse(entry(status)[bound][resource]) for bound in ("lowerBound", "upperBound"))
        assert low < Quantity.parse(known["lowerBound"][resource])
        assert high > Quantity.parse(known["upperBound"][resource])
    reported = condition(status, SIMILAR)
    assert (reported["status"], reported["reason"]) == ("True", "TooFewOwnSamples")
    assert "the same name, image, command and arguments (confidence 0.0004" in reported["message"]
    assert "container main of the pods with app=web" in reported["message"]
    assert condition(status, "LowConfidence")["status"] == "True"
    assert condition(status, "RecommendationProvided")["status"] == "True"


async def test_running_pods_are_not_changed_to_what_similar_containers_use(cluster: Autoscaled) -> None:
    async with recommending(cluster) as recommender:
        pods = await new_deployment(cluster)
        await passes(cluster, recommender)
        updater = Updater(cluster.client, EAGER, cluster.clock)
        await updater.start()
        await passes(cluster, updater, 3)
        why = updater.skip_reasons.of(("default", "new"))
        await updater.stop()
    assert [await requests(cluster, pod) for pod in pods] == [{"cpu": "100m", "memory": "100Mi"}] * 2
    assert "FromSimilar" in str(why)


async def test_an_out_of_memory_kill_is_a_reason_to_change_a_pod_that_has_a_loan(cluster: Autoscaled) -> None:
    async with recommending(cluster) as recommender:
        pods = await new_deployment(cluster)
        await passes(cluster, recommender)
        at = rfc3339(cluster.clock.now())
        ended = {"reason": "OOMKilled", "exitCode": 137, "startedAt": at, "finishedAt": at}
        resources = {"requests": {"cpu": "100m", "memory": "100Mi"}}
        await cluster.running("default", pods[0], restartCount=1, lastState={"terminated": ended}, resources=resources)
        await passes(cluster, recommender)
        updater = Updater(cluster.client, EAGER, cluster.clock)
        await updater.start()
        await passes(cluster, updater, 1)
        await updater.stop()
    given = await requests(cluster, pods[0])
    assert given["memory"] == entry(await status_of(cluster, "web"))["target"]["memory"]
    assert given["cpu"] == "100m"


async def test_a_recommendation_from_similar_containers_ends_when_own_samples_suffice(cluster: Autoscaled) -> None:
    """An hour of similar containers' samples weighs less than a minute of the container's own."""
    async with recommending(cluster) as recommender:
        pods = await new_deployment(cluster)
        await passes(cluster, recommender)
        assert condition(await status_of(cluster), SIMILAR)["status"] == "True"
        for pod in pods:
            cluster.use(pod, "200m", "300000000")
        await passes(cluster, recommender, 3)
    status = await status_of(cluster)
    assert condition(status, SIMILAR)["status"] == "False"
    assert entry(status)["target"] == entry(status)["uncappedTarget"]
    assert Quantity.parse(entry(status)["target"]["cpu"]).milli < 300


async def test_few_own_samples_raise_a_loan_and_decide_when_pods_change(cluster: Autoscaled) -> None:
    """After a day similar containers' samples weigh as much as a quarter of an hour of own samples."""
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender, 1440 - HOUR)
        for pod in await new_deployment(cluster):
            cluster.use(pod, "200m", "2000000000")
        await passes(cluster, recommender, 3)
        status, known = await status_of(cluster), entry(await status_of(cluster, "web"))
        assert condition(status, SIMILAR)["status"] == "True"
        given = entry(status)
        assert given["target"]["cpu"] == known["target"]["cpu"]
        assert Quantity.parse(given["target"]["memory"]) > Quantity.parse(known["target"]["memory"])
        assert Quantity.parse(given["uncappedTarget"]["cpu"]).milli < 300
        assert Quantity.parse(given["lowerBound"]["cpu"]).milli < 200
        await passes(cluster, recommender, 20)
        status = await status_of(cluster)
        assert condition(status, SIMILAR)["status"] == "False"
        assert entry(status)["target"]["cpu"] == entry(status)["uncappedTarget"]["cpu"]


async def test_nothing_is_recommended_from_similar_containers_where_that_is_off(cluster: Autoscaled) -> None:
    async with recommending(cluster, "--start-from-similar=off") as recommender:
        await new_deployment(cluster)
        await passes(cluster, recommender)
    status = await status_of(cluster)
    assert not status["recommendation"] and condition(status, SIMILAR)["status"] == "absent"


async def test_autoscalers_of_other_recommenders_borrow_nothing(cluster: Autoscaled) -> None:
    async with recommending(cluster) as recommender:
        await passes(cluster, recommender)
        container = {"name": "main", "image": "i", "resources": {}}
        pod = {"metadata": {"name": "n", "namespace": "default"}, "spec": {"containers": [container]}}
        meta = {"name": "new", "namespace": "default"}
        own: Any = {"metadata": meta, "spec": {"targetRef": {"kind": "Deployment", "name": "new"}}}
        theirs = {"metadata": meta, "spec": {**own["spec"], "recommenders": [{"name": "theirs"}]}}
        assert recommender.with_similar(own, pod, [])
        assert recommender.with_similar(theirs, pod, []) == {}


@pytest.mark.parametrize("flag", ["namespace", "cluster"])
async def test_other_namespaces_lend_only_where_that_is_wanted(cluster: Autoscaled, flag: str) -> None:
    await cluster.namespace("other")
    async with recommending(cluster, f"--start-from-similar={flag}") as recommender:
        await new_deployment(cluster, "other")
        await passes(cluster, recommender)
    status = await status_of(cluster, "new", "other")
    assert bool(status["recommendation"]) == (flag == "cluster")
    assert ("of the pods with app=web in namespace default" in str(status)) == (flag == "cluster")


async def test_a_container_that_runs_something_else_borrows_nothing(cluster: Autoscaled) -> None:
    async with recommending(cluster) as recommender:
        spec = {
            "containers": [{"name": "other", "image": "i:2", "args": ["--more"], "resources": {}}],
            "nodeName": "n1",
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "odd", "labels": {"app": "odd"}}, "spec": spec}
        await cluster.admin.create(POD, body, "default")
        await cluster.running("default", "odd", container="other")
        await cluster.vpa("new", "", selector={"matchLabels": {"app": "odd"}}, targetRef=None)
        await passes(cluster, recommender)
    assert not (await status_of(cluster))["recommendation"]


async def test_a_query_about_a_pod_of_a_new_workload_is_answered_from_similar_containers(cluster: Autoscaled) -> None:
    async with recommending(cluster) as recommender:
        await cluster.vpa("new", "", selector={"matchLabels": {"app": "fresh"}}, targetRef=None)
        await passes(cluster, recommender)
        containers = [{"name": "main", "image": "i"}, {"name": "side", "image": "unheard-of"}]
        meta = {"namespace": "default", "labels": {"app": "fresh"}}
        answer = await status_for(recommender, {"metadata": meta, "spec": {"containers": containers}})
    [given] = answer["recommendation"]["containerRecommendations"]
    assert given["containerName"] == "main" and "uncappedTarget" not in given
    assert Quantity.parse(given["target"]["cpu"]).milli > 800
    assert answer["recommendation"][SIMILAR] == ["main"]


async def test_explain_follows_numbers_from_similar_containers_step_by_step(cluster: Autoscaled) -> None:
    async with recommending(cluster) as recommender:
        await new_deployment(cluster)
        await passes(cluster, recommender)
        request: Any = None
        answer: Any = await Answers(recommender).explain(request, {"namespace": "default", "name": "new"})
        story = json.loads(answer.body)
    lines = "\n".join(why_numbers(story))
    assert "Container main: no samples\n" in lines
    assert "percentile 0.9 of the usage of similar containers" in lines
    assert "sizes come from containers with the same name, image, command and arguments" in lines
    given = entry(await status_of(cluster))
    for resource, sizes in story["containers"]["main"]["resources"].items():
        for size in ("target", "lowerBound", "upperBound"):
            assert Quantity.parse(sizes[size]["value"]) == Quantity.parse(given[size][resource]), (resource, size)
    shown = "\n".join((await explain_vpa(cluster.admin, await cluster.admin.get(VPA, "default", "new")))[0])
    assert f"{SIMILAR}=True (TooFewOwnSamples: " in shown


async def test_a_restarted_recommender_borrows_from_what_checkpoints_know(cluster: Autoscaled) -> None:
    async with recommending(cluster) as recommender:
        await new_deployment(cluster)
        await passes(cluster, recommender)
    before = await status_of(cluster)
    async with recommending(cluster, minutes=1):
        pass
    after = await status_of(cluster)
    assert condition(after, SIMILAR)["status"] == "True"
    assert entry(after)["target"]["cpu"] == entry(before)["target"]["cpu"]


FLAGS = {
    "recommender": [
        "--recommender-interval=200ms",
        "--confidence-interval-cpu=1m",
        "--confidence-interval-memory=1m",
    ],
    "updater": ["--updater-interval=200ms"],
}


async def test_new_pods_of_a_whole_cluster_start_at_what_similar_ones_use(tmp_path: Path) -> None:
    async with Whole(tmp_path, vpa=True, vpa_flags=FLAGS) as whole:
        pod = pod_spec("100m", "64Mi")
        given = await started_alike(whole, pod, {"podfit.dev/fake-cpu": "constant:0.8"}, lender_uses=700)
    assert given >= 800


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root and writable cgroups")
async def test_new_processes_start_at_what_similar_ones_use(tmp_path: Path) -> None:
    async with Whole(tmp_path, runtime="process", stop_pods=True, vpa=True, vpa_flags=FLAGS) as whole:
        pod = pod_spec("50m", "64Mi")
        pod["containers"][0]["command"] = ["/bin/sh", "-c", "while :; do :; done"]
        pod["containers"][0]["resources"]["limits"] = {"cpu": "300m"}
        given = await started_alike(whole, pod, {}, lender_uses=150)
    assert given >= 150


async def started_alike(whole: Whole, pod: Any, annotations: dict[str, str], lender_uses: int) -> int:
    """Runs Deployment old until its autoscaler knows its usage; returns the size with which a pod of new starts."""
    await whole.client.create(DEPLOYMENT, _deployment("old", pod, annotations))
    await whole.client.create(VPA, _vpa("old"), "default")
    await becomes(whole.client, VPA, "default", "old", lambda vpa: _target(vpa) >= lender_uses and _lends(whole))
    await becomes(whole.client, LEASE, "kube-system", "vpa-admission-controller", lambda vpa: vpa is not None)
    made = _deployment("new", pod, {})
    made["spec"]["replicas"] = 0
    await whole.client.create(DEPLOYMENT, made)
    await whole.client.create(VPA, _vpa("new"), "default")
    await becomes(whole.client, VPA, "default", "new", lambda vpa: bool((vpa or {}).get("status")))
    await whole.client.patch(DEPLOYMENT, "default", "new", {"spec": {"replicas": 1}})
    [found] = await all_become(whole.client, POD, "default", lambda pods: len(pods) == 1, labelSelector="app=new")
    return Quantity.parse(found["spec"]["containers"][0]["resources"]["requests"]["cpu"]).milli


def _lends(whole: Whole) -> bool:
    assert whole.up.autoscaler is not None
    known = whole.up.autoscaler.recommender.cluster.vpas.get(("default", "old"))
    return known is not None and sum(state.last - state.first for state in known.aggregates.values()) > 2.5


def _deployment(name: str, pod: Any, annotations: dict[str, str]) -> Any:
    made = workload("Deployment", name, 1, pod=pod)
    made["spec"]["template"]["metadata"]["annotations"] = annotations
    return made


def _vpa(name: str) -> Any:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    spec = {"targetRef": reference, "updatePolicy": {"updateMode": "Initial"}}
    return {"apiVersion": VPA.api_version, "kind": VPA.kind, "metadata": {"name": name}, "spec": spec}


def _target(vpa: Any) -> int:
    entries = (((vpa or {}).get("status") or {}).get("recommendation") or {}).get("containerRecommendations") or [{}]
    return Quantity.parse((entries[0].get("target") or {}).get("cpu") or "0").milli
