"""Every controller acts as its own service account, with the role that Kubernetes gives to it and no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import Whole, pod_spec, workload

from podfit.api.objects import Object
from podfit.api.registry.kinds import NAMESPACE, NODE, POD, kind_named
from podfit.api.status import ApiError
from podfit.apiserver.request import Request, Response, User
from podfit.client import Client
from podfit.compose import CONTROLLERS, account_client
from podfit.kit.clock import rfc3339

DEPLOYMENT, SET, STATEFUL, DAEMONS = map(kind_named, ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"))
JOB, CRON, CLAIM, QUOTA = map(kind_named, ("Job", "CronJob", "PersistentVolumeClaim", "ResourceQuota"))
BUDGET, SERVICE, SLICE, ENDPOINTS = map(kind_named, ("PodDisruptionBudget", "Service", "EndpointSlice", "Endpoints"))
SECRET, CONFIG, REPLICATION = map(kind_named, ("Secret", "ConfigMap", "ReplicationController"))
PREFIX = "system:serviceaccount:kube-system:"


class Watched(Whole):
    """A cluster that records its controllers' requests, and which of them were forbidden."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.refused: list[tuple[str, str, str]] = []
        self.writers: dict[str, set[str]] = {}
        """The paths that each account wrote to."""
        self._news = asyncio.Event()
        handle = self.up.server.handle

        async def noting(request: Request) -> Response:
            answer = await handle(request)
            if request.user.name == CONTROLLERS.name or request.user.name.startswith(PREFIX):
                self._note(request, answer)
            return answer

        self.up.server.handle = noting  # type: ignore[method-assign]

    def _note(self, request: Request, answer: Response) -> None:
        if answer.status == 403 and "cannot" in str(answer.body or answer.shared):
            self.refused.append((request.user.name, request.method, request.path))
        elif request.method != "GET":
            self.writers.setdefault(request.user.name.removeprefix(PREFIX), set()).add(request.path)
            self._news.set()

    async def wrote(self, *accounts: str) -> None:
        async with asyncio.timeout(30):
            while not set(accounts) <= self.writers.keys():
                self._news.clear()
                await self._news.wait()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Watched]:
    async with Watched(tmp_path) as whole:
        yield whole
    assert not whole.refused


def available(wanted: int, field: str = "readyReplicas") -> Any:
    return lambda obj: obj is not None and (obj.get("status") or {}).get(field, 0) == wanted


def rolled_out(wanted: int) -> Any:
    """The controller has processed the newest template, and all pods are ready and have it."""

    def true(obj: Object | None) -> bool:
        status = (obj or {}).get("status") or {}
        return (
            obj is not None
            and status.get("observedGeneration") == obj["metadata"]["generation"]
            and [status.get(field) for field in ("replicas", "updatedReplicas", "readyReplicas")] == [wanted] * 3
        )

    return true


def gone(obj: Object | None) -> bool:
    return obj is None


async def make(cluster: Whole, body: Object) -> Object:
    kind = kind_named(body["kind"])
    return await cluster.client.create(kind, body, "default" if kind.namespaced else "")


async def test_a_deployment_is_rolled_out_and_resized_by_three_accounts(cluster: Watched) -> None:
    await make(cluster, workload("Deployment", "web", 2))
    await becomes(cluster.client, DEPLOYMENT, "default", "web", available(2))
    change: Object = {"spec": {"template": {"metadata": {"annotations": {"try": "2"}}}}}
    await cluster.client.patch(DEPLOYMENT, "default", "web", change)
    await becomes(cluster.client, DEPLOYMENT, "default", "web", rolled_out(2))
    spec = pod_spec("150m")
    change = {"metadata": {"annotations": {"podfit.dev/resize-policy": "InPlace"}}}
    await cluster.client.patch(DEPLOYMENT, "default", "web", change)
    await cluster.client.patch(DEPLOYMENT, "default", "web", {"spec": {"template": {"spec": spec}}})

    await cluster.wrote("deployment-controller", "replicaset-controller", "inplace-resize-controller")
    assert any(path.endswith("/resize") for path in cluster.writers["inplace-resize-controller"])


async def test_stateful_sets_keep_their_claims_by_their_own_account(cluster: Watched) -> None:
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    templates = [{"metadata": {"name": "data"}, **claim}]
    more = {"serviceName": "db", "volumeClaimTemplates": templates, "persistentVolumeClaimRetentionPolicy": policy}
    await make(cluster, workload("StatefulSet", "db", 1, pod=pod_spec(node=""), **more))
    await becomes(cluster.client, CLAIM, "default", "data-db-0", lambda obj: obj is not None)
    await becomes(cluster.client, POD, "default", "db-0", lambda obj: obj is not None)
    await cluster.client.patch(STATEFUL, "default", "db", {"spec": {"replicas": 0}})
    await becomes(cluster.client, CLAIM, "default", "data-db-0", gone)


async def test_daemons_replicas_and_replication_controllers_start_their_pods(cluster: Watched) -> None:
    await make(cluster, workload("DaemonSet", "agent", None, pod=pod_spec(node="")))
    await becomes(cluster.client, DAEMONS, "default", "agent", available(1, "numberReady"))
    await make(cluster, workload("ReplicaSet", "set", 1))
    await becomes(cluster.client, SET, "default", "set", available(1))
    body = workload("ReplicationController", "old", 1)
    await make(cluster, {**body, "apiVersion": "v1", "spec": {**body["spec"], "selector": {"app": "old"}}})
    await becomes(cluster.client, REPLICATION, "default", "old", available(1))


async def test_a_finished_job_expires_by_the_account_for_that(cluster: Watched) -> None:
    template = {"spec": pod_spec(restartPolicy="Never")}
    spec = {"template": template, "ttlSecondsAfterFinished": 0}
    meta = {"name": "once", "namespace": "default"}
    await make(cluster, {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
    await becomes(cluster.client, JOB, "default", "once", available(1, "ready"))
    pods = await cluster.client.list(POD, "default")
    status = {"status": {"phase": "Succeeded"}}
    await cluster.client.patch(POD, "default", pods["items"][0]["metadata"]["name"], status, "status")
    await becomes(cluster.client, JOB, "default", "once", gone)
    assert any(path.endswith("/jobs/once") for path in cluster.writers["ttl-after-finished-controller"])


async def test_services_have_endpoints_by_two_accounts(cluster: Watched) -> None:
    await make(cluster, workload("ReplicaSet", "set", 1))
    spec = {"selector": {"app": "set"}, "ports": [{"port": 80}]}
    await make(cluster, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc"}, "spec": spec})
    await becomes(cluster.client, ENDPOINTS, "default", "svc", lambda endpoints: endpoints is not None)
    bare = {"ports": [{"port": 80}]}
    await make(cluster, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "bare"}, "spec": bare})
    subsets = [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]
    await make(cluster, {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "bare"}, "subsets": subsets})
    await cluster.wrote("endpoint-controller", "endpointslice-controller", "endpointslicemirroring-controller")


async def test_quota_and_budgets_are_counted(cluster: Watched) -> None:
    spec: Object = {"hard": {"pods": "10"}}
    await make(cluster, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec})
    await make(cluster, workload("ReplicaSet", "set", 2))
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "set"}}}
    meta = {"name": "b"}
    await make(cluster, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec})
    await becomes(cluster.client, BUDGET, "default", "b", available(1, "disruptionsAllowed"))

    def counted(obj: Object | None) -> bool:
        return bool(obj and ((obj.get("status") or {}).get("used") or {}).get("pods") == "2")

    await becomes(cluster.client, QUOTA, "default", "q", counted)


async def test_a_namespace_is_furnished_and_emptied(cluster: Watched) -> None:
    name = await cluster.namespace("team")
    await becomes(cluster.client, CONFIG, name, "kube-root-ca.crt", lambda config: config is not None)
    await cluster.client.patch(CONFIG, name, "kube-root-ca.crt", {"data": {"ca.crt": "other"}})

    def right(obj: Object | None) -> bool:
        return bool(obj and obj["data"]["ca.crt"] == cluster.up.server.pki.ca.decode())

    await becomes(cluster.client, CONFIG, name, "kube-root-ca.crt", right)
    notes = {"kubernetes.io/service-account.name": "default"}
    meta = {"name": "token", "namespace": name, "annotations": notes}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "kubernetes.io/service-account-token"}
    await cluster.client.create(SECRET, secret)
    await becomes(cluster.client, SECRET, name, "token", lambda obj: bool(obj and (obj.get("data") or {}).get("token")))
    held = {"name": "held", "namespace": name, "finalizers": ["test/hold"]}
    await cluster.client.create(CONFIG, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})
    await cluster.client.delete(NAMESPACE, "", name)

    def waits(obj: Object | None) -> bool:
        found = ((obj or {}).get("status") or {}).get("conditions") or []
        return any(each["type"] == "NamespaceContentRemaining" and each["status"] == "True" for each in found)

    await becomes(cluster.client, NAMESPACE, "", name, waits)
    await cluster.client.patch(CONFIG, name, "held", {"metadata": {"finalizers": None}})
    await becomes(cluster.client, NAMESPACE, "", name, gone)


async def test_a_lost_node_is_tainted_and_pods_leave_a_tainted_one(cluster: Watched) -> None:
    past = rfc3339(0.0)
    meta = {"name": "lost", "creationTimestamp": past}
    condition = {"type": "Ready", "status": "Unknown", "lastHeartbeatTime": past, "lastTransitionTime": past}
    await cluster.client.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": meta})
    await cluster.client.patch(NODE, "", "lost", {"status": {"conditions": [condition]}}, "status")

    def tainted(obj: Object | None) -> bool:
        return any(each["effect"] == "NoExecute" for each in ((obj or {}).get("spec") or {}).get("taints") or [])

    await becomes(cluster.client, NODE, "", "lost", tainted)
    await make(cluster, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod_spec()})
    taints = [{"key": "test", "effect": "NoExecute"}]
    await cluster.client.patch(NODE, "", "n1", {"spec": {"taints": taints}})
    await becomes(cluster.client, POD, "default", "p", gone)


@pytest.mark.parametrize("verb", ["create", "patch", "delete"])
async def test_the_controller_manager_itself_may_not_write_workloads(cluster: Watched, verb: str) -> None:
    client: Client = cluster.up.client(User(CONTROLLERS.name, CONTROLLERS.groups), "test")
    await make(cluster, workload("Deployment", "web", 0))
    calls = {
        "create": lambda: client.create(DEPLOYMENT, workload("Deployment", "other", 0)),
        "patch": lambda: client.patch(DEPLOYMENT, "default", "web", {"spec": {"replicas": 1}}),
        "delete": lambda: client.delete(DEPLOYMENT, "default", "web"),
    }
    with pytest.raises(ApiError) as refusal:
        await calls[verb]()
    assert refusal.value.code == 403
    cluster.refused.clear()


async def test_an_account_has_no_right_of_another(cluster: Watched) -> None:
    client = account_client(cluster.up.server, "endpoint-controller")
    with pytest.raises(ApiError) as refusal:
        await client.create(DEPLOYMENT, workload("Deployment", "web", 0))
    assert refusal.value.code == 403
    cluster.refused.clear()
