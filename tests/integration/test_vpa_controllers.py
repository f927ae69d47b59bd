"""The autoscaler together with controllers in a running cluster: their updates, and the ways to disable it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.expect import all_become, becomes
from tests.support.cluster.whole import Whole, pod_spec, workload

from podfit.api.registry.kinds import POD, VPA, kind_named

DEPLOYMENT, REPLICA_SET = kind_named("Deployment"), kind_named("ReplicaSet")
FLAGS = {"updater": ["--updater-interval=200ms", "--scale-down-delay=0"]}
ALPHA = "/apis/autoscaling.k8s.io/v1alpha1/namespaces/default/verticalpodautoscalers"


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncIterator[Whole]:
    async with Whole(tmp_path, vpa=True, vpa_flags=FLAGS) as made:
        yield made


async def scaled(whole: Whole) -> None:
    """A Deployment of two pods with an autoscaler in the design's form, which resizes them from 100m to 300m."""
    await whole.client.create(DEPLOYMENT, workload("Deployment", "web", 2, pod=pod_spec("100m", "64Mi")))
    spec = {
        "selector": {"matchLabels": {"app": "web"}},
        "updatePolicy": {"mode": "InPlaceOrRecreate"},
        "recommenders": [{"name": "by-hand"}],
    }
    body = {"apiVersion": "autoscaling.k8s.io/v1alpha1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "web"}}
    await whole.client.raw("POST", ALPHA, body={**body, "spec": spec})
    await recommend(whole, "300m")
    await pods(whole, 2, "300m")


async def recommend(whole: Whole, cpu: str) -> None:
    amounts = {"cpu": cpu, "memory": "64Mi"}
    entry = {"containerName": "c", **dict.fromkeys(("target", "lowerBound", "upperBound"), amounts)}
    status = {"recommendation": {"containerRecommendations": [entry]}}
    await whole.client.patch(VPA, "default", "web", {"status": status}, "status")


async def pods(whole: Whole, count: int, cpu: str, also: Callable[[Any], bool] = lambda pod: True) -> list[Any]:
    """The pods of the Deployment, once there are so many and all have that size."""

    def so(found: list[Any]) -> bool:
        return len(found) == count and all(size(pod) == cpu and also(pod) for pod in found)

    return await all_become(whole.client, POD, "default", so, labelSelector="app=web")


def size(pod: Any) -> str:
    return str(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


async def passes(whole: Whole, more: int = 3) -> None:
    assert whole.up.autoscaler is not None
    updater = whole.up.autoscaler.updater
    end = updater.passes + 1 + more
    async with asyncio.timeout(60):
        while updater.passes < end:
            await asyncio.sleep(0.02)


async def test_resource_updates_do_not_interrupt_the_rollouts_of_a_deployment(whole: Whole) -> None:
    await scaled(whole)
    found = await whole.client.get(DEPLOYMENT, "default", "web")
    assert found["metadata"]["generation"] == 1, "the template is the user's"
    assert len((await whole.client.list(REPLICA_SET, "default"))["items"]) == 1, "a resize is no rollout"
    change = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
    await whole.client.patch(DEPLOYMENT, "default", "web", change)
    await pods(whole, 2, "300m", lambda pod: (pod["metadata"].get("annotations") or {}).get("version") == "2")
    found = await whole.client.get(DEPLOYMENT, "default", "web")
    assert found["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "100m"


async def off(whole: Whole) -> None:
    shown = await whole.client.raw("GET", f"{ALPHA}/web")
    shown["spec"]["updatePolicy"]["mode"] = "Off"
    await whole.client.raw("PUT", f"{ALPHA}/web", body=shown)


async def deleted(whole: Whole) -> None:
    await whole.client.raw("DELETE", f"{ALPHA}/web")


async def unmatched(whole: Whole) -> None:
    selector = {"spec": {"selector": {"matchLabels": {"app": "another"}}}}
    await whole.client.patch(VPA, "default", "web", selector)


@pytest.mark.parametrize("disable", [off, deleted, unmatched])
async def test_an_autoscaler_that_is_disabled_changes_nothing_and_reverts_nothing(whole: Whole, disable: Any) -> None:
    await scaled(whole)
    before = await pods(whole, 2, "300m")
    await disable(whole)
    if disable is not deleted:
        await recommend(whole, "500m")
    await passes(whole)
    after = await pods(whole, 2, "300m")
    assert {pod["metadata"]["uid"] for pod in after} == {pod["metadata"]["uid"] for pod in before}
    # An update of the Deployment restores the size of its template.
    change = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
    await whole.client.patch(DEPLOYMENT, "default", "web", change)
    await pods(whole, 2, "100m")


async def test_pods_whose_labels_no_longer_match_are_not_changed(whole: Whole) -> None:
    await scaled(whole)
    one, other = await pods(whole, 2, "300m")
    # Its ReplicaSet releases it and creates another one.
    label = {"metadata": {"labels": {"app": "mine"}}}
    await whole.client.patch(POD, "default", one["metadata"]["name"], label)
    await recommend(whole, "500m")
    await becomes(whole.client, POD, "default", other["metadata"]["name"], lambda pod: size(pod) == "500m")
    await passes(whole)
    assert size(await whole.client.get(POD, "default", one["metadata"]["name"])) == "300m"
