"""Workload controllers against the real API server and agents on fake machines."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.expect import all_become, becomes
from tests.support.cluster.whole import Whole, pod_spec, workload

from podfit.api.registry.kinds import POD, kind_named
from podfit.client.rest import STRATEGIC

DEPLOYMENT, SET, STATEFUL, DAEMON, JOB = map(
    kind_named, ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job")
)


def ready(count: int) -> Any:
    def check(obj: Any) -> bool:
        status = (obj or {}).get("status") or {}
        return (
            status.get("readyReplicas", 0) == count
            and status.get("updatedReplicas", 0) == count
            and status.get("replicas", 0) == count
            and status.get("observedGeneration") == obj["metadata"]["generation"]
        )

    return check


def cpu_of(pod: dict[str, Any]) -> str:
    return str(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def sized(cpu: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}}}


@pytest.fixture
async def whole(tmp_path: Path):  # type: ignore[no-untyped-def]
    async with Whole(tmp_path) as cluster:
        yield cluster


async def test_a_deployment_gets_its_pods_and_reports_them(whole: Whole) -> None:
    await whole.client.create(DEPLOYMENT, workload("Deployment", "web", 3))
    done = await becomes(whole.client, DEPLOYMENT, "default", "web", ready(3))
    assert done is not None
    conditions = {condition["type"]: condition["status"] for condition in done["status"]["conditions"]}
    assert conditions == {"Available": "True", "Progressing": "True"}


async def test_a_template_change_rolls_to_a_new_replica_set(whole: Whole) -> None:
    await whole.client.create(DEPLOYMENT, workload("Deployment", "web", 3))
    await becomes(whole.client, DEPLOYMENT, "default", "web", ready(3))
    before = {pod["metadata"]["uid"] for pod in (await whole.client.list(POD, "default"))["items"]}
    await whole.client.patch(DEPLOYMENT, "default", "web", sized("200m"), content_type=STRATEGIC)
    await becomes(whole.client, DEPLOYMENT, "default", "web", ready(3))
    after = await all_become(whole.client, POD, "default", lambda pods: len(pods) == 3)
    assert {cpu_of(pod) for pod in after} == {"200m"}
    assert before.isdisjoint(pod["metadata"]["uid"] for pod in after)
    assert len((await whole.client.list(SET, "default"))["items"]) == 2


async def test_an_in_place_deployment_resizes_its_running_pods(whole: Whole) -> None:
    body = workload("Deployment", "web", 3)
    body["metadata"]["annotations"] = {"podfit.dev/resize-policy": "InPlace"}
    await whole.client.create(DEPLOYMENT, body)
    await becomes(whole.client, DEPLOYMENT, "default", "web", ready(3))
    before = {pod["metadata"]["uid"] for pod in (await whole.client.list(POD, "default"))["items"]}
    await whole.client.patch(DEPLOYMENT, "default", "web", sized("150m"), content_type=STRATEGIC)
    after = await all_become(
        whole.client,
        POD,
        "default",
        lambda pods: all(
            (pod["status"].get("containerStatuses") or [{}])[0].get("resources", {}).get("requests", {}).get("cpu")
            == "150m"
            for pod in pods
        ),
    )
    assert {pod["metadata"]["uid"] for pod in after} == before
    assert all(pod["status"]["containerStatuses"][0]["restartCount"] == 0 for pod in after)


async def test_an_in_place_resize_that_changes_the_qos_class_replaces_the_pods(whole: Whole) -> None:
    body = workload("Deployment", "web", 2)
    body["metadata"]["annotations"] = {"podfit.dev/resize-policy": "InPlace"}
    await whole.client.create(DEPLOYMENT, body)
    await becomes(whole.client, DEPLOYMENT, "default", "web", ready(2))
    before = {pod["metadata"]["uid"] for pod in (await whole.client.list(POD, "default"))["items"]}
    limits = {"limits": {"cpu": "100m", "memory": "32Mi"}}
    change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "resources": limits}]}}}}
    await whole.client.patch(DEPLOYMENT, "default", "web", change, content_type=STRATEGIC)
    await all_become(
        whole.client,
        POD,
        "default",
        lambda pods: len(pods) == 2 and all(pod["status"].get("qosClass") == "Guaranteed" for pod in pods),
    )
    after = {pod["metadata"]["uid"] for pod in (await whole.client.list(POD, "default"))["items"]}
    assert before.isdisjoint(after)


async def test_a_statefulset_starts_its_pods_in_order(whole: Whole) -> None:
    await whole.client.create(STATEFUL, workload("StatefulSet", "db", 3, serviceName="db"))
    done = await becomes(whole.client, STATEFUL, "default", "db", ready(3))
    pods = sorted((await whole.client.list(POD, "default"))["items"], key=lambda pod: pod["metadata"]["name"])
    assert done is not None and [pod["metadata"]["name"] for pod in pods] == ["db-0", "db-1", "db-2"]
    born = [int(pod["metadata"]["resourceVersion"]) for pod in pods]
    assert born == sorted(born)


async def test_an_in_place_statefulset_keeps_its_pods(whole: Whole) -> None:
    body = workload("StatefulSet", "db", 2, serviceName="db")
    body["metadata"]["annotations"] = {"podfit.dev/resize-policy": "InPlace"}
    await whole.client.create(STATEFUL, body)
    await becomes(whole.client, STATEFUL, "default", "db", ready(2))
    before = {pod["metadata"]["uid"] for pod in (await whole.client.list(POD, "default"))["items"]}
    await whole.client.patch(STATEFUL, "default", "db", sized("130m"), content_type=STRATEGIC)
    await becomes(whole.client, STATEFUL, "default", "db", ready(2))
    after = (await whole.client.list(POD, "default"))["items"]
    assert {pod["metadata"]["uid"] for pod in after} == before and {cpu_of(pod) for pod in after} == {"130m"}


async def test_a_deleted_pod_of_a_replica_set_is_replaced_by_exactly_one(whole: Whole) -> None:
    await whole.client.create(SET, workload("ReplicaSet", "rs", 2))
    first = await all_become(whole.client, POD, "default", lambda pods: len(pods) == 2)
    await whole.client.delete(POD, "default", first[0]["metadata"]["name"])
    gone = first[0]["metadata"]["uid"]
    await all_become(
        whole.client,
        POD,
        "default",
        lambda pods: len(pods) == 2 and gone not in {pod["metadata"]["uid"] for pod in pods},
    )


async def test_a_job_runs_to_completion_and_counts_each_pod_once(whole: Whole) -> None:
    spec = pod_spec(restartPolicy="Never")
    spec["containers"][0]["command"] = ["true"]
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default"},
        "spec": {"completions": 3, "parallelism": 2, "template": {"spec": spec}},
    }
    await whole.client.create(JOB, body)
    done = await becomes(
        whole.client, JOB, "default", "j", lambda job: bool(((job or {}).get("status") or {}).get("completionTime"))
    )
    assert done is not None and done["status"]["succeeded"] == 3
    pods = (await whole.client.list(POD, "default"))["items"]
    assert len(pods) == 3 and not any(pod["metadata"].get("finalizers") for pod in pods)


async def test_deleting_a_deployment_takes_its_sets_and_pods_along(whole: Whole) -> None:
    await whole.client.create(DEPLOYMENT, workload("Deployment", "web", 2))
    await becomes(whole.client, DEPLOYMENT, "default", "web", ready(2))
    await whole.client.delete(DEPLOYMENT, "default", "web", {"propagationPolicy": "Background"})
    await all_become(whole.client, SET, "default", lambda sets: not sets)
    await all_become(whole.client, POD, "default", lambda pods: not pods)


async def test_orphaned_pods_stay_when_their_set_is_deleted(whole: Whole) -> None:
    await whole.client.create(SET, workload("ReplicaSet", "rs", 2))
    await all_become(whole.client, POD, "default", lambda pods: len(pods) == 2)
    await whole.client.delete(SET, "default", "rs", {"propagationPolicy": "Orphan"})
    await all_become(whole.client, SET, "default", lambda sets: not sets)
    pods = await all_become(
        whole.client, POD, "default", lambda pods: all(not pod["metadata"].get("ownerReferences") for pod in pods)
    )
    assert len(pods) == 2


async def test_deleting_a_namespace_empties_it(whole: Whole) -> None:
    name = await whole.namespace("going")
    body = workload("Deployment", "web", 2)
    body["metadata"]["namespace"] = name
    await whole.client.create(DEPLOYMENT, body)
    await becomes(whole.client, DEPLOYMENT, name, "web", ready(2))
    namespace = kind_named("Namespace")
    await whole.client.delete(namespace, "", name)
    await becomes(whole.client, namespace, "", name, lambda obj: obj is None)
    assert (await whole.client.list(POD))["items"] == []
