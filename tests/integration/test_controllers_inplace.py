"""Workloads that resize in place report that they are updated only once all sizes are in force."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.expect import all_become, becomes
from tests.support.cluster.whole import Whole, pod_spec, workload

from podfit.api.registry.kinds import POD, kind_named
from podfit.client.rest import STRATEGIC

DEPLOYMENT, STATEFUL, DAEMON = map(kind_named, ("Deployment", "StatefulSet", "DaemonSet"))


@pytest.fixture
async def narrow(tmp_path: Path) -> AsyncIterator[Whole]:
    """A node with room for two pods of 400m, not for three."""
    async with Whole(tmp_path, node_capacity={"cpu": "1", "memory": "1Gi"}) as cluster:
        yield cluster


def in_place(kind: str, replicas: int | None, **more: Any) -> dict[str, Any]:
    body = workload(kind, "web", replicas, **more)
    body["metadata"]["annotations"] = {"podfit.dev/resize-policy": "InPlace"}
    return body


async def resize(whole: Whole, kind: Any, cpu: str) -> None:
    change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}}}
    await whole.client.patch(kind, "default", "web", change, content_type=STRATEGIC)


def counts(field: str, number: int) -> Any:
    def check(obj: Any) -> bool:
        status = (obj or {}).get("status") or {}
        return bool(
            status.get("observedGeneration") == obj["metadata"]["generation"] and status.get(field, 0) == number
        )

    return check


def shown(pods: list[dict[str, Any]]) -> list[str]:
    reported = [(pod["status"].get("containerStatuses") or [{}])[0] for pod in pods]
    return sorted(str(((entry.get("resources") or {}).get("requests") or {}).get("cpu")) for entry in reported)


def progressing(deployment: Any) -> dict[str, Any]:
    return next(condition for condition in deployment["status"]["conditions"] if condition["type"] == "Progressing")


async def pods_of(whole: Whole) -> list[dict[str, Any]]:
    return list((await whole.client.list(POD, "default"))["items"])


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (DEPLOYMENT, "updatedReplicas"),
        (STATEFUL, "updatedReplicas"),
    ],
)
async def test_a_resize_that_waits_for_room_is_not_counted_as_updated(narrow: Whole, kind: Any, field: str) -> None:
    more = {"serviceName": "web"} if kind == STATEFUL else {}
    await narrow.client.create(kind, in_place(kind.kind, 3, **more))
    await becomes(narrow.client, kind, "default", "web", counts("readyReplicas", 3))
    await resize(narrow, kind, "400m")
    held = await becomes(narrow.client, kind, "default", "web", counts(field, 2))
    assert held is not None and shown(await pods_of(narrow)) == ["100m", "400m", "400m"]
    if kind == DEPLOYMENT:
        assert progressing(held)["reason"] == "ReplicaSetUpdated" and progressing(held)["status"] == "True"
    else:
        assert held["status"]["currentRevision"] != held["status"]["updateRevision"]
    before = {pod["metadata"]["uid"] for pod in await pods_of(narrow)}
    await resize(narrow, kind, "300m")
    done = await becomes(narrow.client, kind, "default", "web", counts(field, 3))
    assert shown(await pods_of(narrow)) == ["300m"] * 3
    assert {pod["metadata"]["uid"] for pod in await pods_of(narrow)} == before
    if kind == DEPLOYMENT:
        assert progressing(done)["reason"] == "NewReplicaSetAvailable"


async def test_an_updated_deployment_has_its_size_in_force_at_that_moment(narrow: Whole) -> None:
    await narrow.client.create(DEPLOYMENT, in_place("Deployment", 3))
    await becomes(narrow.client, DEPLOYMENT, "default", "web", counts("readyReplicas", 3))
    for cpu in ("150m", "200m", "250m"):
        await resize(narrow, DEPLOYMENT, cpu)
        await becomes(narrow.client, DEPLOYMENT, "default", "web", counts("updatedReplicas", 3))
        assert shown(await pods_of(narrow)) == [cpu] * 3


async def test_a_deployment_whose_resize_waits_too_long_exceeds_its_deadline(narrow: Whole) -> None:
    await narrow.client.create(DEPLOYMENT, in_place("Deployment", 3, progressDeadlineSeconds=1))
    await becomes(narrow.client, DEPLOYMENT, "default", "web", counts("readyReplicas", 3))
    await resize(narrow, DEPLOYMENT, "400m")
    late = await becomes(
        narrow.client,
        DEPLOYMENT,
        "default",
        "web",
        lambda obj: counts("updatedReplicas", 2)(obj) and progressing(obj)["status"] == "False",
    )
    assert progressing(late)["reason"] == "ProgressDeadlineExceeded"


async def test_a_daemon_set_taken_back_in_the_middle_has_its_former_size_everywhere(tmp_path: Path) -> None:
    capacity = {"cpu": "1", "memory": "1Gi"}
    async with Whole(tmp_path, nodes=2, node_name="n", node_capacity=capacity) as two:
        # Only one of the nodes has capacity for the larger daemon: the set stays partly updated.
        meta = {"name": "crowd", "namespace": "default"}
        crowd = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec(cpu="800m", node="n-2")}
        await two.client.create(POD, crowd)
        await two.client.create(DAEMON, in_place("DaemonSet", None, pod=pod_spec(node="")))
        await becomes(two.client, DAEMON, "default", "web", counts("numberReady", 2))
        await resize(two, DAEMON, "500m")
        await becomes(two.client, DAEMON, "default", "web", counts("updatedNumberScheduled", 1))
        await resize(two, DAEMON, "100m")
        await becomes(two.client, DAEMON, "default", "web", counts("updatedNumberScheduled", 2))
        daemons = await all_become(two.client, POD, "default", lambda pods: len(pods) == 2, labelSelector="app=web")
        assert shown(daemons) == ["100m", "100m"]


async def test_a_size_set_by_another_client_stays_until_the_template_changes(narrow: Whole) -> None:
    await narrow.client.create(DEPLOYMENT, in_place("Deployment", 2, pod=pod_spec("100m")))
    await becomes(narrow.client, DEPLOYMENT, "default", "web", counts("readyReplicas", 2))
    one = (await pods_of(narrow))[0]["metadata"]["name"]
    own = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "150m"}}}]}}
    await narrow.client.patch(POD, "default", one, own, "resize", STRATEGIC)
    await all_become(narrow.client, POD, "default", lambda pods: shown(pods) == ["100m", "150m"])
    await narrow.client.patch(DEPLOYMENT, "default", "web", {"spec": {"replicas": 3}})
    await becomes(narrow.client, DEPLOYMENT, "default", "web", counts("readyReplicas", 3))
    assert shown(await pods_of(narrow)) == ["100m", "100m", "150m"]
    await resize(narrow, DEPLOYMENT, "200m")
    await all_become(narrow.client, POD, "default", lambda pods: shown(pods) == ["200m"] * 3)


async def test_a_deployment_of_virtual_machines_is_resized_in_place(narrow: Whole) -> None:
    body = in_place("Deployment", 2)
    size = {"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "128Mi"}}
    guest = {"name": "guest", "image": "i", "publicKey": "k", "resources": size}
    body["spec"]["template"]["spec"] = {"virtualMachine": guest}
    await narrow.client.create(DEPLOYMENT, body)
    await becomes(narrow.client, DEPLOYMENT, "default", "web", counts("readyReplicas", 2))
    before = {pod["metadata"]["uid"] for pod in await pods_of(narrow)}
    change = {"spec": {"template": {"spec": {"virtualMachine": {"resources": {"requests": {"cpu": "200m"}}}}}}}
    await narrow.client.patch(DEPLOYMENT, "default", "web", change, content_type=STRATEGIC)
    await becomes(narrow.client, DEPLOYMENT, "default", "web", counts("updatedReplicas", 2))
    pods = await pods_of(narrow)
    assert {pod["metadata"]["uid"] for pod in pods} == before
    machines = [pod["spec"]["virtualMachine"] for pod in pods]
    assert [vm["resources"]["requests"]["cpu"] for vm in machines] == ["200m", "200m"]
