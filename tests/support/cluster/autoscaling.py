"""A cluster for tests of the autoscaler: our API server on a store in memory, with objects and usage set by the
test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.support.cluster.nodes import local_client

from podfit.api.numbers import THROTTLED
from podfit.api.objects import Object
from podfit.api.registry.kinds import NAMESPACE, NODE, POD, POD_METRICS, VPA, Kind, kind_named
from podfit.apiserver.app import ApiServer
from podfit.apiserver.config import Config
from podfit.client.cache import Cache, key_of
from podfit.client.rest import Client
from podfit.client.transport import ClientRequest, Reply, Stream, Transport, Unreachable
from podfit.kit.clock import Clock, RealClock, rfc3339
from podfit.store.memory import MemoryStore

DEPLOYMENT, REPLICA_SET = kind_named("Deployment"), kind_named("ReplicaSet")
METRICS = "/apis/metrics.k8s.io/v1beta1/pods"


class Metered:
    """A transport that answers requests to the resource metrics API itself and forwards all others."""

    def __init__(self, inner: Transport, clock: Clock) -> None:
        self._inner, self._clock = inner, clock
        self.usage: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
        """(namespace, pod) → container → (cpu, memory)"""
        self.throttled: dict[tuple[str, str], str] = {}
        """(namespace, pod) → the fraction of periods in which its containers reach their CPU limit"""
        self.window = "30s"
        self.gone = False
        self.extra: list[Object] = []
        """Additional PodMetrics to return, valid or not."""
        self.requests: list[tuple[str, str]] = []

    async def request(self, ask: ClientRequest) -> Reply:
        self.requests.append((ask.method, ask.path))
        if not ask.path.startswith("/apis/metrics.k8s.io/"):
            return await self._inner.request(ask)
        if self.gone:
            raise Unreachable("metrics are away")
        if ask.path != METRICS:
            named = [item for item in self._items() if POD_METRICS.path(**item["metadata"]) == ask.path]
            return Reply(200, msgspec.json.encode(named[0])) if named else Reply(404, b"{}")
        return Reply(200, msgspec.json.encode({"kind": "PodMetricsList", "items": [*self._items(), *self.extra]}))

    def _items(self) -> list[Object]:
        return [
            {
                "metadata": {"namespace": namespace, "name": name},
                "timestamp": rfc3339(self._clock.now()),
                "window": self.window,
                "containers": [
                    {"name": container, "usage": {"cpu": cpu, "memory": memory} | self._throttled(namespace, name)}
                    for container, (cpu, memory) in containers.items()
                ],
            }
            for (namespace, name), containers in self.usage.items()
        ]

    def _throttled(self, namespace: str, name: str) -> dict[str, str]:
        part = self.throttled.get((namespace, name))
        return {THROTTLED: part} if part is not None else {}

    def stream(self, ask: ClientRequest) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(ask)

    async def close(self) -> None:
        await self._inner.close()


class Autoscaled:
    """An API server, and a client that reads the usage set by the test."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or RealClock()
        self.server = ApiServer(Config(MemoryStore(), folder, tls=False))
        self.admin = local_client(self.server)
        self.metered = Metered(self.admin.transport, self.clock)
        self.client = Client(self.metered)

    async def namespace(self, name: str) -> None:
        await self.admin.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        account: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await self.admin.create(kind_named("ServiceAccount"), account, name)

    async def node(self, name: str = "n1", cpu: str = "8", memory: str = "16Gi", pods: str = "500") -> None:
        amounts = {"cpu": cpu, "memory": memory, "pods": pods}
        made = await self.admin.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        made["status"] = {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "r", "message": "m"}],
            "declaredFeatures": ["InPlacePodVerticalScaling"],
        }
        made = await self.admin.update(NODE, made, "status")
        # A new node has the taint not-ready, which a controller would remove.
        made["spec"].pop("taints", None)
        await self.admin.update(NODE, made)

    async def deployment(
        self,
        name: str,
        pods: int = 2,
        namespace: str = "default",
        *,
        cpu: str = "100m",
        memory: str = "100Mi",
        limits: Mapping[str, str] | None = None,
        node: str = "n1",
        restart_policy: str = "Always",
        env: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Creates a Deployment, its ReplicaSet and running pods in the state that controllers and a node would
        produce."""
        labels = {"app": name}
        resources: Object = {"requests": {"cpu": cpu, "memory": memory}}
        if limits:
            resources["limits"] = dict(limits)
        template: Object = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": "i", "resources": resources, "env": _env(env)}]},
        }
        spec: Object = {"replicas": pods, "selector": {"matchLabels": labels}, "template": template}
        deployment = await self._create(DEPLOYMENT, namespace, {"metadata": {"name": name}, "spec": spec})
        owner = owner_of(deployment)
        replica_set = await self._create(
            REPLICA_SET, namespace, {"metadata": {"name": f"{name}-1", "ownerReferences": [owner]}, "spec": spec}
        )
        names = [f"{name}-1-{number}" for number in range(pods)]
        for word in names:
            await self.pod(
                word, namespace, labels=labels, owner=owner_of(replica_set), resources=resources, node=node, env=env
            )
        return names

    async def make(
        self, kind: Kind, name: str, spec: Object, namespace: str = "default", owner: Object | None = None
    ) -> Object:
        """Creates an object of any kind, owned by `owner` if that is given."""
        meta: Object = {"name": name, **({"ownerReferences": [owner_of(owner)]} if owner else {})}
        return await self._create(kind, namespace, {"metadata": meta, "spec": spec})

    async def pod(
        self,
        name: str,
        namespace: str = "default",
        *,
        labels: Mapping[str, str] | None = None,
        owner: Object | None = None,
        resources: Object | None = None,
        node: str = "n1",
        container: str = "main",
        env: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Object:
        meta: Object = {"name": name, "labels": dict(labels or {})}
        if owner:
            meta["ownerReferences"] = [owner]
        made = {"name": container, "image": "i", "resources": resources or {}, "env": _env(env)}
        body: Object = {"containers": [made], **spec}
        if node:
            body["nodeName"] = node
        pod = await self._create(POD, namespace, {"metadata": meta, "spec": body})
        if node:
            await self.running(namespace, name, resources=resources, container=container)
        return pod

    async def running(
        self, namespace: str, name: str, *, resources: Object | None = None, container: str = "main", **entry: Any
    ) -> None:
        started = rfc3339(self.clock.now())
        status = {
            "phase": "Running",
            "startTime": started,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": started}],
            "containerStatuses": [
                {
                    "name": container,
                    "image": "i",
                    "imageID": "i",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": started}},
                    **({"resources": resources} if resources else {}),
                    **entry,
                }
            ],
        }
        await self.admin.patch(POD, namespace, name, {"status": status}, "status")

    async def vpa(self, name: str, target: str, namespace: str = "default", **spec: Any) -> Object:
        """Creates an autoscaler for a Deployment, unless `spec` has another target."""
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
        return await self._create(
            VPA, namespace, {"metadata": {"name": name}, "spec": {"targetRef": reference, **spec}}
        )

    async def recommend(self, name: str, target: Mapping[str, str], namespace: str = "default", **more: Any) -> None:
        """Writes a recommendation for container `main` to an autoscaler's status."""
        entry = {"containerName": "main", "target": dict(target), **more}
        status = {
            "recommendation": {"containerRecommendations": [entry]},
            "conditions": [{"type": "RecommendationProvided", "status": "True"}],
        }
        await self.admin.patch(VPA, namespace, name, {"status": status}, "status")

    async def caught_up(self, caches: Iterable[Cache]) -> None:
        """Waits until the caches of a component have everything that the server has: watches may lag behind writes."""
        for cache in caches:
            listed = await self.admin.list(cache.kind, cache.namespace, **cache.query)
            revisions = {key_of(obj): obj["metadata"]["resourceVersion"] for obj in listed["items"]}
            async with asyncio.timeout(30):
                while {key_of(obj): obj["metadata"]["resourceVersion"] for obj in cache} != revisions:
                    await asyncio.sleep(0)

    def use(self, pod: str, cpu: str, memory: str, namespace: str = "default", container: str = "main") -> None:
        self.metered.usage[namespace, pod] = {container: (cpu, memory)}

    async def _create(self, kind: Kind, namespace: str, obj: Object) -> Object:
        return await self.admin.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **obj}, namespace)


@asynccontextmanager
async def autoscaled(folder: Path, clock: Clock | None = None) -> AsyncIterator[Autoscaled]:
    """A started cluster with one node and the namespace `default`."""
    made = Autoscaled(folder, clock)
    await made.server.start()
    try:
        account: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await made.admin.create(kind_named("ServiceAccount"), account, "default")
        await made.node()
        yield made
    finally:
        await made.server.stop()


def _env(values: Mapping[str, str] | None) -> list[Object]:
    return [{"name": name, "value": value} for name, value in (values or {}).items()]


def owner_of(obj: Object) -> Object:
    """An owner reference to an object as controller."""
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
