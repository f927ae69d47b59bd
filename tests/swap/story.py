"""The sixteen steps that every combination of components must pass; each step fails by itself."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from podfit.api.objects import Object
from podfit.api.quantity import milli_of
from podfit.api.registry.kinds import NAMESPACE, POD, kind_named
from podfit.api.registry.kinds import NODE as NODES
from podfit.api.status import ApiError
from podfit.client.rest import STRATEGIC, Client
from tests.support.cluster.expect import all_become, becomes

from .programs import NODE

ACCOUNT, CONFIG, QUOTA = map(kind_named, ("ServiceAccount", "ConfigMap", "ResourceQuota"))
DEPLOYMENT, STATEFUL, DAEMONS, JOB = map(kind_named, ("Deployment", "StatefulSet", "DaemonSet", "Job"))
SERVICE, SLICE, BUDGET = map(kind_named, ("Service", "EndpointSlice", "PodDisruptionBudget"))
SPACE = "story"
PATIENCE_S = 90.0
Test = Callable[[Object | None], bool]


class Story:
    def __init__(self, client: Client, kubeconfig: Path) -> None:
        self._client, self._kubeconfig = client, kubeconfig
        self._web: list[Object] = []

    # --- asking
    async def make(self, body: Object) -> Object:
        kind = kind_named(body["kind"])
        return await self._client.create(kind, body, SPACE if kind.namespaced else "")

    async def becomes(self, kind: Any, name: str, true: Test, namespace: str = SPACE) -> Object:
        found = await becomes(self._client, kind, namespace, name, true, PATIENCE_S)
        return found or {}

    async def pods(self, label: str, true: Callable[[list[Object]], bool]) -> list[Object]:
        return await all_become(self._client, POD, SPACE, true, PATIENCE_S, labelSelector=f"app={label}")

    async def resize(self, name: str, **requests: str) -> None:
        patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}
        await self._client.patch(POD, SPACE, name, patch, subresource="resize", content_type=STRATEGIC)

    async def kubectl(self, *words: str) -> str:
        environment = {**os.environ, "KUBECONFIG": str(self._kubeconfig)}
        pipe = asyncio.subprocess.PIPE
        command = (str(shutil.which("kubectl")), "-n", SPACE, *words)
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=environment)
        out, errors = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        assert process.returncode == 0, f"kubectl {' '.join(words)}: {out.decode()}{errors.decode()}"
        return out.decode()

    # --- the steps, in their order
    async def the_node_is_ready(self) -> None:
        await self.becomes(NODES, NODE, holds("Ready"), "")

    async def a_namespace_gets_its_account_and_certificate(self) -> None:
        await self.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
        await self.becomes(ACCOUNT, "default", is_there)
        await self.becomes(CONFIG, "kube-root-ca.crt", is_there)

    async def a_deployment_rolls_out(self) -> None:
        await self.make(workload("Deployment", "web", replicas=2))
        await self.becomes(DEPLOYMENT, "web", counts("availableReplicas", 2))
        self._web = await self.pods("web", lambda pods: len(pods) == 2 and all(map(running, pods)))

    async def a_service_has_its_endpoints(self) -> None:
        spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
        await self.make({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec})
        query = {"labelSelector": "kubernetes.io/service-name=web"}
        addresses = {pod["status"]["podIP"] for pod in self._web}

        def complete(slices: list[Object]) -> bool:
            ready = [
                endpoint
                for row in slices
                for endpoint in row.get("endpoints") or []
                if endpoint["conditions"].get("ready")
            ]
            return {address for entry in ready for address in entry["addresses"]} == addresses

        await all_become(self._client, SLICE, SPACE, complete, PATIENCE_S, **query)

    async def logs_are_shown(self) -> None:
        assert "started" in await self.kubectl("logs", self._web[0]["metadata"]["name"])

    async def commands_run_in_containers(self) -> None:
        name = self._web[0]["metadata"]["name"]
        assert (await self.kubectl("exec", name, "--", "echo", "hello")).strip() == "hello"

    async def a_pod_is_resized_in_place(self) -> None:
        name = self._web[0]["metadata"]["name"]
        await self.resize(name, cpu="150m")
        pod = await self.becomes(POD, name, sized("cpu", "150m"))
        assert restarts(pod) == 0

    async def a_resize_restarts_where_its_policy_says_so(self) -> None:
        policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
        await self.make(pod_of("careful", resizePolicy=policy))
        await self.becomes(POD, "careful", running)
        await self.resize("careful", memory="48Mi")
        await self.becomes(POD, "careful", lambda pod: sized("memory", "48Mi")(pod) and restarts(pod) == 1)

    async def a_resize_without_room_is_deferred_until_there_is_some(self) -> None:
        node = await self._client.get(NODES, "", NODE)
        cores = milli_of(node["status"]["allocatable"]["cpu"]) / 1000
        half, most = f"{int(cores * 500)}m", f"{int(cores * 700)}m"
        await self.make(pod_of("holder", cpu=half))
        await self.make(pod_of("grower"))
        await self.becomes(POD, "holder", running)
        await self.becomes(POD, "grower", running)
        await self.resize("grower", cpu=most)
        await self.becomes(POD, "grower", holds("PodResizePending", "Deferred"))
        await self._client.delete(POD, SPACE, "holder", {"gracePeriodSeconds": 0})
        pod = await self.becomes(POD, "grower", sized("cpu", most))
        assert restarts(pod) == 0
        await self._client.delete(POD, SPACE, "grower", {"gracePeriodSeconds": 0})

    async def a_resize_beyond_the_node_is_refused(self) -> None:
        try:
            await self.resize("careful", cpu="900")
        except ApiError as error:
            assert error.code == 403 and "enough allocatable resources: cpu" in error.message
        else:
            raise AssertionError("it was taken")

    async def quota_refuses_a_resize_beyond_it(self) -> None:
        spec = {"hard": {"requests.cpu": "1"}}
        await self.make({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec})
        await self.becomes(QUOTA, "q", lambda obj: bool(((obj or {}).get("status") or {}).get("used")))
        try:
            await self.resize("careful", cpu="950m")
        except ApiError as error:
            assert error.code == 403 and "exceeded quota" in error.message
        else:
            raise AssertionError("the quota let it pass")
        await self._client.delete(QUOTA, SPACE, "q")

    async def a_new_template_is_rolled_out(self) -> None:
        change = {"spec": {"template": {"metadata": {"annotations": {"turn": "2"}}}}}
        await self._client.patch(DEPLOYMENT, SPACE, "web", change)

        def complete(obj: Object | None) -> bool:
            status = (obj or {}).get("status") or {}
            wanted = {"updatedReplicas": 2, "availableReplicas": 2, "replicas": 2}
            current = status.get("observedGeneration") == ((obj or {}).get("metadata") or {}).get("generation")
            return current and all(status.get(key) == value for key, value in wanted.items())

        await self.becomes(DEPLOYMENT, "web", complete)

    async def a_job_runs_to_its_end(self) -> None:
        container = {"name": "c", "image": "busybox", "imagePullPolicy": "IfNotPresent", "command": ["true"]}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        meta, spec = {"name": "j"}, {"template": template}
        await self.make({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
        await self.becomes(JOB, "j", holds("Complete"))

    async def stateful_and_daemon_sets_start_their_pods(self) -> None:
        await self.make(workload("StatefulSet", "db", replicas=1, serviceName="db"))
        await self.make(workload("DaemonSet", "agent"))
        await self.becomes(STATEFUL, "db", counts("readyReplicas", 1))
        await self.becomes(DAEMONS, "agent", counts("numberReady", 1))

    async def a_budget_refuses_an_eviction(self) -> None:
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}}
        meta = {"name": "b"}
        await self.make({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec})
        await self.becomes(BUDGET, "b", counts("currentHealthy", 1))
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "db-0", "namespace": SPACE}}
        try:
            await self._client.create(POD, eviction, SPACE, "db-0", "eviction")
        except ApiError as error:
            assert error.code == 429
        else:
            raise AssertionError("the budget let it pass")

    async def the_namespace_is_emptied_and_gone(self) -> None:
        await self._client.delete(NAMESPACE, "", SPACE)
        await self.becomes(NAMESPACE, SPACE, lambda space: space is None, "")
        assert not (await self._client.list(POD, SPACE))["items"]

    def steps(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            self.the_node_is_ready,
            self.a_namespace_gets_its_account_and_certificate,
            self.a_deployment_rolls_out,
            self.a_service_has_its_endpoints,
            self.logs_are_shown,
            self.commands_run_in_containers,
            self.a_pod_is_resized_in_place,
            self.a_resize_restarts_where_its_policy_says_so,
            self.a_resize_without_room_is_deferred_until_there_is_some,
            self.a_resize_beyond_the_node_is_refused,
            self.quota_refuses_a_resize_beyond_it,
            self.a_new_template_is_rolled_out,
            self.a_job_runs_to_its_end,
            self.stateful_and_daemon_sets_start_their_pods,
            self.a_budget_refuses_an_eviction,
            self.the_namespace_is_emptied_and_gone,
        ]


# --- bodies and tests of them


def container(cpu: str = "50m", **more: Any) -> Object:
    command = ["sh", "-c", "echo started; trap exit TERM; while :; do sleep 1; done"]
    resources = {"requests": {"cpu": cpu, "memory": "32Mi"}}
    return {
        "name": "c",
        "image": "busybox",
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "resources": resources,
    } | more


def pod_of(name: str, cpu: str = "50m", **more: Any) -> Object:
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container(cpu, **more)]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}


def workload(kind: str, name: str, **spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_of(name)["spec"]}
    body = {"selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def is_there(obj: Object | None) -> bool:
    return obj is not None


def counts(field: str, wanted: int) -> Test:
    return lambda obj: ((obj or {}).get("status") or {}).get(field) == wanted


def holds(type: str, reason: str = "") -> Test:
    def test(obj: Object | None) -> bool:
        rows = ((obj or {}).get("status") or {}).get("conditions") or []
        return any(
            row["type"] == type
            and row["status"] == "True"
            and row.get("reason", "") in (reason or row.get("reason", ""),)
            for row in rows
        )

    return test


def running(pod: Object | None) -> bool:
    return ((pod or {}).get("status") or {}).get("phase") == "Running" and holds("Ready")(pod)


def sized(resource: str, wanted: str) -> Test:
    """The size that the kernel has, according to the container's status."""

    def test(pod: Object | None) -> bool:
        rows = ((pod or {}).get("status") or {}).get("containerStatuses") or [{}]
        return ((rows[0].get("resources") or {}).get("requests") or {}).get(resource) == wanted

    return test


def restarts(pod: Object | None) -> int:
    rows = ((pod or {}).get("status") or {}).get("containerStatuses") or [{}]
    return int(rows[0].get("restartCount", 0))
