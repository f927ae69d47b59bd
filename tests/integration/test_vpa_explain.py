"""`podfit explain vpa` about the pods of a running cluster: the rule, the numbers and what would change the verdict."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.expect import all_become, becomes
from tests.support.cluster.whole import Whole, pod_spec, workload

from podfit.api.registry.kinds import POD, VPA, kind_named
from podfit.cli.explaining.autoscalers import explain_vpa
from podfit.cli.explaining.scheduling import explain_place

DEPLOYMENT, CRON_JOB = kind_named("Deployment"), kind_named("CronJob")
FLAGS = {
    "recommender": ["--recommender-interval=200ms", "--pod-recommendation-min-cpu-millicores=300"],
    "updater": ["--updater-interval=200ms"],
}


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncIterator[Whole]:
    async with Whole(tmp_path, vpa=True, vpa_flags=FLAGS) as made:
        yield made


async def autoscaler(whole: Whole, name: str, kind: str, target: str, mode: str, **more: Any) -> None:
    spec = {
        "targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": target},
        "updatePolicy": {"updateMode": mode},
        **more,
    }
    body = {"apiVersion": VPA.api_version, "kind": VPA.kind, "metadata": {"name": name}, "spec": spec}
    await whole.client.create(VPA, body, "default")


async def reported(whole: Whole, name: str, *words: str) -> str:
    """The explanation of an autoscaler, once it contains all these words."""
    text = ""
    async with asyncio.timeout(60):
        while not all(word in text for word in words):
            await asyncio.sleep(0.05)
            lines, _ = await explain_vpa(whole.client, await whole.client.get(VPA, "default", name))
            text = "\n".join(lines)
    return text


async def test_a_pod_that_is_left_as_it_is_has_a_line_with_the_rule_the_numbers_and_the_way_out(whole: Whole) -> None:
    await whole.client.create(DEPLOYMENT, workload("Deployment", "web", 1))
    await autoscaler(whole, "web", "Deployment", "web", "Recreate")
    text = await reported(whole, "web", "TooFewReplicas")
    assert "(1 pod)" in text
    assert "runs 1 of 1 replicas, fewer than the 2 (minReplicas) that a disruption needs" in text
    assert "more replicas or a lower minReplicas of the autoscaler or mode InPlaceOrRecreate would allow" in text


async def test_pods_at_their_target_are_said_to_be_there_with_numbers(whole: Whole) -> None:
    await whole.client.create(DEPLOYMENT, workload("Deployment", "web", 2))
    await autoscaler(whole, "web", "Deployment", "web", "InPlaceOrRecreate")
    text = await reported(whole, "web", "AtTarget")
    assert "container c requests 300m of cpu (target 300m, bounds 300m to " in text


async def test_a_recommender_that_is_not_running_is_named(whole: Whole) -> None:
    await whole.client.create(DEPLOYMENT, workload("Deployment", "web", 1))
    await autoscaler(whole, "web", "Deployment", "web", "Off", recommenders=[{"name": "nobodys"}])
    text = await reported(whole, "web", "Its recommender is nobodys")
    assert "--recommender-name=nobodys has to size it" in text and "podfit's own are auto, batch, default" in text


async def test_the_autoscaler_that_is_overruled_names_the_one_that_acts(whole: Whole) -> None:
    await whole.client.create(DEPLOYMENT, workload("Deployment", "web", 2))
    await autoscaler(whole, "a-first", "Deployment", "web", "InPlaceOrRecreate")
    await autoscaler(whole, "b-second", "Deployment", "web", "InPlaceOrRecreate")
    text = await reported(whole, "b-second", "Overruled=True")
    assert "VerticalPodAutoscaler a-first is older and selects the same pods" in text


async def test_the_pods_of_a_cron_job_are_counted_whatever_group_its_target_names(whole: Whole) -> None:
    job = {"template": {"spec": {**pod_spec(), "restartPolicy": "Never"}}}
    body = {"schedule": "* * * * *", "jobTemplate": {"spec": job}}
    made = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "cron", "namespace": "default"}}
    created = await whole.client.create(CRON_JOB, {**made, "spec": body})
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "cron", "uid": created["metadata"]["uid"]}
    meta = {"name": "cron-1", "namespace": "default", "ownerReferences": [{**owner, "controller": True}]}
    await whole.client.create(
        kind_named("Job"), {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": job}
    )
    await autoscaler(whole, "cron", "CronJob", "cron", "Auto")
    text = await reported(whole, "cron", "RecommendationProvided=True", "Pods in the updater's last pass")
    assert "vpa/cron scales cronjob/cron (1 pod), mode Auto:" in text
    assert "NoPodsMatched" not in text


async def test_a_held_pod_names_what_would_let_it_start(whole: Whole) -> None:
    meta = {"name": "held", "annotations": {"podfit.dev/requires-vpa": "true"}}
    await becomes(whole.client, kind_named("Lease"), "kube-system", "vpa-admission-controller", lambda obj: bool(obj))
    hooks = kind_named("MutatingWebhookConfiguration")
    await all_become(whole.client, hooks, "", lambda found: bool(found))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec(node="")}
    created: Any = await whole.client.create(POD, pod, "default")
    lines, _ = await explain_place(whole.client, created)
    assert lines[0] == (
        "pod/held is not scheduled: scheduling gate podfit.dev/requires-vpa is set. "
        "Create a VerticalPodAutoscaler that controls the pod, or remove the gate."
    )
