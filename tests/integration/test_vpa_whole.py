"""The whole autoscaler inside a whole cluster: load on a fake node ends in a resize in place, without a restart."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.expect import all_become, becomes
from tests.support.cluster.whole import Whole, pod_spec, workload

from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import LEASE, POD, POD_METRICS, VPA, kind_named

DEPLOYMENT, REPLICA_SET = kind_named("Deployment"), kind_named("ReplicaSet")
FLAGS = {
    "recommender": ["--recommender-interval=200ms", "--pod-recommendation-min-cpu-millicores=300"],
    "updater": ["--updater-interval=200ms", "--scale-down-delay=0"],
}

QUICK = {"recommender": ["--recommender-interval=200ms"], "updater": ["--updater-interval=200ms"]}


async def test_a_deployment_is_resized_in_place(tmp_path: Path) -> None:
    async with Whole(tmp_path, vpa=True, vpa_flags=FLAGS) as whole:
        await whole.client.create(DEPLOYMENT, workload("Deployment", "web", 2, pod=pod_spec("100m", "64Mi")))
        spec = {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "updatePolicy": {"updateMode": "InPlaceOrRecreate"},
        }
        vpa = {"apiVersion": VPA.api_version, "kind": VPA.kind, "metadata": {"name": "web"}, "spec": spec}
        await whole.client.create(VPA, vpa, "default")
        provided = await becomes(
            whole.client,
            VPA,
            "default",
            "web",
            lambda obj: bool(((obj or {}).get("status") or {}).get("recommendation")),
        )
        assert provided is not None
        target = provided["status"]["recommendation"]["containerRecommendations"][0]["target"]
        assert target["cpu"] == "300m"

        def settled(pods: list[dict[str, object]]) -> bool:
            return len(pods) == 2 and all(_cpu(pod) == "300m" for pod in pods)

        pods = await all_become(whole.client, POD, "default", settled, labelSelector="app=web")
        assert [pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods] == [0, 0]
        await becomes(whole.client, LEASE, "kube-system", "vpa-admission-controller", lambda lease: lease is not None)
        await whole.client.patch(DEPLOYMENT, "default", "web", {"spec": {"replicas": 3}})
        pods = await all_become(whole.client, POD, "default", lambda found: len(found) == 3, labelSelector="app=web")
        newest = max(pods, key=lambda pod: int(pod["metadata"]["resourceVersion"]))
        assert newest["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "300m"


async def test_a_starved_deployment_is_given_what_it_needs(tmp_path: Path) -> None:
    """Limit and request are 300m, the load is 1.2 cores."""
    async with Whole(tmp_path, vpa=True, vpa_flags=QUICK) as whole:
        annotations = {"podfit.dev/fake-cpu": "constant:1.2"}
        found = await _starved(whole, pod_spec("300m", "64Mi"), "300m", annotations, enough=1200)
        assert found["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_a_starved_deployment_does_not_wait_for_the_updaters_next_pass(tmp_path: Path) -> None:
    """The updater passes once a day."""
    flags = {"recommender": ["--recommender-interval=200ms"], "updater": ["--updater-interval=24h"]}
    async with Whole(tmp_path, vpa=True, vpa_flags=flags) as whole:
        annotations = {"podfit.dev/fake-cpu": "constant:1.2"}
        await _starved(whole, pod_spec("300m", "64Mi"), "300m", annotations, enough=1200)
        assert whole.up.autoscaler is not None and whole.up.autoscaler.updater.passes == 0


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root and writable cgroups")
async def test_a_busy_process_under_a_small_limit_is_given_more(tmp_path: Path) -> None:
    """A busy process, under a limit of 50m that its cgroup enforces."""
    async with Whole(tmp_path, runtime="process", stop_pods=True, vpa=True, vpa_flags=QUICK) as whole:
        pod = pod_spec("50m", "64Mi")
        pod["containers"][0]["command"] = ["/bin/sh", "-c", "while :; do :; done"]
        found = await _starved(whole, pod, "50m", {}, enough=200)
        assert found["status"]["containerStatuses"][0]["restartCount"] == 0


BURSTS = "while :; do i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 0.5; done"


@pytest.mark.parametrize(
    "runtime",
    [
        "fake",
        pytest.param("process", marks=[pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]),
    ],
)
async def test_a_meter_reports_how_often_a_container_reaches_its_limit(tmp_path: Path, runtime: str) -> None:
    """Bursts reach the limit of 200m; average usage is far lower."""
    async with Whole(tmp_path, runtime=runtime, stop_pods=True, meter_resolution_s=1.0) as whole:
        pod = pod_spec("50m", "64Mi")
        pod["containers"][0]["command"] = ["/bin/sh", "-c", BURSTS]
        pod["containers"][0]["resources"]["limits"] = {"cpu": "200m"}
        meta = {"name": "bursts", "annotations": {"podfit.dev/fake-cpu": "sine:0..400m:2"}}
        await whole.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod}, "default")
        assert whole.up.meter is not None
        async with asyncio.timeout(60):
            while True:
                use = whole.up.meter.pod("default", "bursts").get("c")
                if use is not None and use.throttled >= 0.25 and use.cores < 0.95 * 0.2:
                    break
                await asyncio.sleep(0.1)
        listed = await whole.client.raw("GET", POD_METRICS.path("default"))
        [container] = listed["items"][0]["containers"]
        assert Quantity.parse(container["usage"]["podfit.dev/cpu-throttled"]).milli > 0


async def _starved(whole: Whole, pod: Any, limit: str, annotations: dict[str, str], enough: int) -> Any:
    """Runs a Deployment of one such pod with an autoscaler until its request suffices, in millicores."""
    pod["containers"][0]["resources"]["limits"] = {"cpu": limit}
    deployment = workload("Deployment", "web", 1, pod=pod)
    deployment["spec"]["template"]["metadata"]["annotations"] = annotations
    await whole.client.create(DEPLOYMENT, deployment)
    spec = {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "updatePolicy": {"updateMode": "InPlaceOrRecreate", "minReplicas": 1},
        "resourcePolicy": {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "1500m"}}]},
    }
    vpa = {"apiVersion": VPA.api_version, "kind": VPA.kind, "metadata": {"name": "web"}, "spec": spec}
    await whole.client.create(VPA, vpa, "default")

    def grown(pods: list[dict[str, object]]) -> bool:
        return len(pods) == 1 and Quantity.parse(str(_cpu(pods[0]) or "0")).milli >= enough

    [found] = await all_become(whole.client, POD, "default", grown, labelSelector="app=web")
    return found


async def test_a_cluster_that_serves_no_metrics_keeps_its_pods_as_they_are(tmp_path: Path) -> None:
    """Without controllers there is no meter: metrics.k8s.io is not served."""
    async with Whole(tmp_path, vpa=True, vpa_flags=FLAGS, controllers=False) as whole:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await whole.client.create(kind_named("ServiceAccount"), account, "default")
        made = await whole.client.create(REPLICA_SET, workload("ReplicaSet", "web", 1, pod=pod_spec("400m", "64Mi")))
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": made["metadata"]["uid"]}
        meta = {"labels": {"app": "web"}, "ownerReferences": [{**owner, "controller": True}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": pod_spec("400m", "64Mi")}
        await whole.client.create(POD, {**pod, "metadata": {"name": "old", **meta}}, "default")
        await becomes(whole.client, POD, "default", "old", lambda obj: _cpu(obj or {}) == "400m")
        spec = {
            "targetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"},
            "updatePolicy": {"updateMode": "InPlaceOrRecreate", "minReplicas": 1},
        }
        vpa = {"apiVersion": VPA.api_version, "kind": VPA.kind, "metadata": {"name": "web"}, "spec": spec}
        await whole.client.create(VPA, vpa, "default")
        reported = await becomes(whole.client, VPA, "default", "web", lambda obj: "NoSamples" in _reasons(obj or {}))
        assert reported is not None and not reported["status"]["recommendation"]
        assert {"NoSamples", "MetricsApiFailed"} <= _reasons(reported)
        autoscaler = whole.up.autoscaler
        assert autoscaler is not None
        seen = autoscaler.updater.passes
        async with asyncio.timeout(60):
            while autoscaler.updater.passes < seen + 3:
                await asyncio.sleep(0.05)
        created = await whole.client.create(POD, {**pod, "metadata": {"name": "new", **meta}}, "default")
        for obj in (created, await whole.client.get(POD, "default", "old")):
            assert obj["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "400m", "memory": "64Mi"}
            assert "vpaUpdates" not in (obj["metadata"].get("annotations") or {})


def _reasons(vpa: dict[str, Any]) -> set[str]:
    return {condition.get("reason", "") for condition in (vpa.get("status") or {}).get("conditions") or ()}


def _cpu(pod: dict[str, object]) -> object:
    status = pod.get("status") or {}
    assert isinstance(status, dict)
    for entry in status.get("containerStatuses") or []:
        return ((entry.get("resources") or {}).get("requests") or {}).get("cpu")
    return None
