"""Finalizers whose controller may be gone: no deleted object stays for ever."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.expect import all_become, becomes
from tests.support.cluster.whole import Whole, pod_spec, workload
from tests.support.cluster.workloads import Pods

from podfit.api.registry.kinds import NAMESPACE, POD, Kind, kind_named

JOB, CRON = kind_named("Job"), kind_named("CronJob")
TRACKING = "batch.kubernetes.io/job-tracking"
POLICIES = ("Background", "Foreground", "Orphan")


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncIterator[Whole]:
    async with Whole(tmp_path) as cluster:
        yield cluster


def job(name: str = "j", **spec: Any) -> dict[str, Any]:
    body = {"template": {"spec": pod_spec(restartPolicy="Never")}, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": body}


def tracked(pod: Any) -> bool:
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def running(count: int) -> Any:
    return lambda pods: len(pods) == count and all(pod["status"].get("phase") == "Running" for pod in pods)


def none(pods: Pods) -> bool:
    return not pods


def freed(pods: Pods) -> bool:
    """Whether all pods still exist, without an owner and without a finalizer."""
    return bool(pods) and not any(tracked(pod) or pod["metadata"].get("ownerReferences") for pod in pods)


async def delete(whole: Whole, kind: Kind, name: str, policy: str) -> None:
    await whole.client.delete(kind, "default", name, {"propagationPolicy": policy})


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_job_deleted_while_its_pod_runs_leaves_no_finalizer_behind(whole: Whole, policy: str) -> None:
    await whole.client.create(JOB, job())
    (pod,) = await all_become(whole.client, POD, "default", running(1))
    assert tracked(pod)
    await delete(whole, JOB, "j", policy)
    await becomes(whole.client, JOB, "default", "j", lambda obj: obj is None)
    await all_become(whole.client, POD, "default", freed if policy == "Orphan" else none)


async def test_pods_of_a_job_deleted_while_no_controller_runs_are_freed_at_the_next_start(tmp_path: Path) -> None:
    async with Whole(tmp_path, store="sqlite") as whole:
        await whole.client.create(JOB, job())
        await all_become(whole.client, POD, "default", running(1))
    async with Whole(tmp_path, store="sqlite", controllers=False) as whole:
        await delete(whole, JOB, "j", "Background")
        (pod,) = (await whole.client.list(POD, "default"))["items"]
        assert tracked(pod)
    async with Whole(tmp_path, store="sqlite") as whole:
        await all_become(whole.client, POD, "default", none)


async def test_a_job_recreated_at_once_neither_keeps_nor_counts_the_old_pods(whole: Whole) -> None:
    await whole.client.create(JOB, job())
    (old,) = await all_become(whole.client, POD, "default", running(1))
    await delete(whole, JOB, "j", "Background")
    new = await whole.client.create(JOB, job())

    def only_new(pods: Pods) -> bool:
        owners = [pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods]
        return owners == [new["metadata"]["uid"]] and running(1)(pods)

    (pod,) = await all_become(whole.client, POD, "default", only_new)
    assert pod["metadata"]["uid"] != old["metadata"]["uid"] and tracked(pod)
    status = (await whole.client.get(JOB, "default", "j"))["status"]
    assert status.get("active") == 1 and not status.get("failed") and not status.get("succeeded")


async def test_a_pod_that_a_job_adopts_is_tracked_and_one_that_it_releases_is_not(whole: Whole) -> None:
    await whole.client.create(JOB, job(parallelism=1))
    (pod,) = await all_become(whole.client, POD, "default", running(1))
    labels = dict(pod["metadata"]["labels"])
    name = pod["metadata"]["name"]
    await whole.client.patch(POD, "default", name, {"metadata": {"labels": dict.fromkeys(labels)}})
    await becomes(whole.client, POD, "default", name, lambda obj: freed([obj or {}]))
    await all_become(whole.client, POD, "default", running(2))
    await whole.client.patch(JOB, "default", "j", {"spec": {"parallelism": 2}})
    await whole.client.patch(POD, "default", name, {"metadata": {"labels": labels}})
    await becomes(whole.client, POD, "default", name, lambda obj: bool(obj and tracked(obj)))


async def test_the_finalizer_on_a_pod_of_another_owner_stays(whole: Whole) -> None:
    """The finalizer is not podfit's to remove: another controller added it and waits for it."""
    body = workload("ReplicaSet", "rs", 1)
    await whole.client.create(kind_named("ReplicaSet"), body)
    (pod,) = await all_become(whole.client, POD, "default", running(1))
    name = pod["metadata"]["name"]
    await whole.client.patch(POD, "default", name, {"metadata": {"finalizers": [TRACKING]}})
    bare = {"name": "bare", "namespace": "default", "finalizers": [TRACKING]}
    await whole.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": bare, "spec": pod_spec()})
    await becomes(whole.client, POD, "default", "bare", lambda obj: not tracked(obj))
    assert tracked(await whole.client.get(POD, "default", name))


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_deleted_cron_job_leaves_nothing_that_cannot_go(whole: Whole, policy: str) -> None:
    spec = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": job()["spec"]}}
    meta = {"name": "c", "namespace": "default"}
    cron = await whole.client.create(
        CRON, {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": spec}
    )
    body = job("made")
    above = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": cron["metadata"]["uid"]}
    body["metadata"]["ownerReferences"] = [{**above, "controller": True, "blockOwnerDeletion": True}]
    await whole.client.create(JOB, body)
    await all_become(whole.client, POD, "default", running(1))
    await delete(whole, CRON, "c", policy)
    await becomes(whole.client, CRON, "default", "c", lambda obj: obj is None)
    if policy == "Orphan":
        orphan = await becomes(
            whole.client, JOB, "default", "made", lambda obj: not (obj or {})["metadata"].get("ownerReferences")
        )
        assert orphan is not None
        await delete(whole, JOB, "made", "Background")
    await becomes(whole.client, JOB, "default", "made", lambda obj: obj is None)
    await all_become(whole.client, POD, "default", none)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"])
async def test_a_deleted_workload_is_gone_and_its_pods_are_gone_or_free(whole: Whole, name: str, policy: str) -> None:
    kind, count = kind_named(name), 1 if name == "DaemonSet" else 2
    pod = pod_spec(node="") if name == "DaemonSet" else None
    more = {"serviceName": "s", "podManagementPolicy": "Parallel"} if name == "StatefulSet" else {}
    body = workload(name, "w", None if name == "DaemonSet" else 2, pod=pod, **more)
    await whole.client.create(kind, body)
    await all_become(whole.client, POD, "default", running(count))
    await delete(whole, kind, "w", policy)
    await becomes(whole.client, kind, "default", "w", lambda obj: obj is None)
    if policy != "Orphan":
        await all_become(whole.client, POD, "default", none)
        return
    if name == "Deployment":
        # The Deployment's ReplicaSet is orphaned; the pods keep their ReplicaSet.
        sets = kind_named("ReplicaSet")
        await all_become(whole.client, sets, "default", freed)
        await all_become(whole.client, POD, "default", running(count))
    else:
        await all_become(whole.client, POD, "default", freed)


async def test_a_foreground_deletion_continues_when_the_last_dependent_changes_owner(whole: Whole) -> None:
    config = kind_named("ConfigMap")
    meta = {"namespace": "default"}
    owner = await whole.client.create(config, {"metadata": {**meta, "name": "owner"}})
    above = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    held = {**meta, "name": "child", "finalizers": ["example.com/held"]}
    held["ownerReferences"] = [{**above, "blockOwnerDeletion": True}]
    await whole.client.create(config, {"metadata": held})
    await delete(whole, config, "owner", "Foreground")
    await becomes(whole.client, config, "default", "child", lambda obj: "deletionTimestamp" in (obj or {})["metadata"])
    assert await whole.client.find(config, "default", "owner") is not None
    await whole.client.patch(config, "default", "child", {"metadata": {"ownerReferences": None}})
    await becomes(whole.client, config, "default", "owner", lambda obj: obj is None)


async def test_a_namespace_goes_with_the_running_pods_of_its_jobs(whole: Whole) -> None:
    await whole.namespace("other")
    body = job()
    body["metadata"]["namespace"] = "other"
    await whole.client.create(JOB, body)
    await all_become(whole.client, POD, "other", running(1))
    await whole.client.delete(NAMESPACE, "", "other", {"propagationPolicy": "Orphan"})
    await becomes(whole.client, NAMESPACE, "", "other", lambda namespace: namespace is None)
