"""Components of an agent on their own: a fake clock, a runtime in memory, Events and enqueued pods kept in lists."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec

from podfit.agent import loop
from podfit.agent.build import BuiltParts, Outside, build
from podfit.agent.config import AgentConfig
from podfit.agent.core import Core
from podfit.agent.metrics import AgentMetrics
from podfit.agent.node.node import NodeKeeper
from podfit.agent.phases.context import PodContext
from podfit.agent.phases.observe import observe
from podfit.agent.pods.events import Events
from podfit.agent.pods.ledger import Ledger
from podfit.agent.pods.record import PodRecord
from podfit.agent.pods.story import Story
from podfit.agent.queue import PassQueue
from podfit.agent.runtimes.fake.runtime import FakeRuntime
from podfit.api.objects import Object
from podfit.client.rest import Client
from podfit.client.transport import ClientRequest, Reply, Stream
from podfit.kit.clock import FakeClock
from podfit.kit.concurrency.tasks import Tasks


def pod(uid: str = "u", cpu: str = "100m", memory: str = "64Mi", **spec: Any) -> Object:
    sizes = {"cpu": cpu, "memory": memory}
    container = {
        "name": "c",
        "image": "busybox:1",
        "command": ["sleep", "1d"],
        "resources": {"requests": dict(sizes), "limits": dict(sizes)},
    }
    return {
        "metadata": {"name": f"p-{uid}", "namespace": "ns", "uid": uid, "resourceVersion": "1", "generation": 1},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 30, **spec},
        "status": {"phase": "Pending"},
    }


def resized(body: Object, cpu: str, memory: str = "64Mi", revision: int = 2) -> Object:
    """The same pod with another size in its spec."""
    sizes = {"cpu": cpu, "memory": memory}
    container = {**body["spec"]["containers"][0], "resources": {"requests": dict(sizes), "limits": dict(sizes)}}
    meta = {**body["metadata"], "generation": revision, "resourceVersion": str(revision)}
    return {**body, "metadata": meta, "spec": {**body["spec"], "containers": [container]}}


class KeptEvents(Events):
    def __init__(self) -> None:
        self.kept: list[tuple[str, str]] = []

    def emit(self, pod: Object, type: str, reason: str, message: str, container: str = "") -> None:
        self.kept.append((reason, message))

    @property
    def reasons(self) -> list[str]:
        return [reason for reason, _ in self.kept]


class KeptQueue(PassQueue):
    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.enqueued: list[str] = []
        self.later: list[tuple[str, float]] = []

    def enqueue(self, uid: str) -> None:
        self.enqueued.append(uid)

    def enqueue_after(self, uid: str, seconds: float) -> None:
        self.later.append((uid, seconds))


class Api:
    """An API server that keeps the statuses it receives, and answers each with the next revision."""

    def __init__(self) -> None:
        self.pods: dict[str, Object] = {}
        self.statuses: list[Object] = []
        self.deleted: list[str] = []
        self.revision = 100

    async def request(self, ask: ClientRequest) -> Reply:
        name = ask.path.split("/pods/")[-1].split("/")[0]
        if ask.method == "PATCH" and ask.path.endswith("/status") and name in self.pods:
            change = msgspec.json.decode(cast(bytes, ask.body))["status"]
            self.statuses.append(change)
            self.revision += 1
            body = self.pods[name]
            meta = {**body["metadata"], "resourceVersion": str(self.revision)}
            self.pods[name] = {**body, "metadata": meta, "status": {**body["status"], **change}}
            return Reply(200, msgspec.json.encode(self.pods[name]))
        if ask.method == "DELETE" and name in self.pods:
            self.deleted.append(name)
            return Reply(200, msgspec.json.encode(self.pods[name]))
        return Reply(404, msgspec.json.encode({"kind": "Status", "code": 404}))

    def stream(self, ask: ClientRequest) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError("nothing is watched here")

    async def close(self) -> None: ...


class Lab:
    """All components of an agent, none of them running: a test calls the one under test."""

    def __init__(self, folder: Path, runtime: FakeRuntime | None = None, **config: Any) -> None:
        self.clock = FakeClock()
        self.events, self.queue = KeptEvents(), KeptQueue(self.clock)
        self.runtime = runtime or FakeRuntime(self.clock)
        capacity = {"cpu": "4", "memory": "8Gi"}
        settings = AgentConfig("n", folder, capacity, durable=False, on_disk=False, address="10.0.0.1")
        settings = replace(settings, **config)
        self.ledger, self.tasks = Ledger(folder / "ledger", durable=False), Tasks("lab")
        self.core = Core(
            settings,
            self.clock,
            self.runtime,
            self.ledger,
            self.events,
            AgentMetrics(),
            self.tasks,
            self.queue,
        )
        self.api = Api()
        self.client = Client(self.api)
        self.records: dict[str, PodRecord] = {}
        self.node = NodeKeeper(self.client, self.runtime, settings, self.clock, self.tasks)
        outside = Outside(self.client, self.runtime, self.runtime, self.node, self.records)
        self.built: BuiltParts = build(self.core, outside)
        self.parts = self.built.parts

    def record(self, body: Object | None = None) -> PodRecord:
        """A record that no component knows of."""
        body = body or pod()
        return PodRecord(body["metadata"]["uid"], body, Story(self.clock))

    def add(self, body: Object | None = None) -> PodRecord:
        """A pod of this node, admitted if it fits."""
        body = body or pod()
        self.api.pods[body["metadata"]["name"]] = body
        self.built.tracking.roster.add(body)
        return self.records[body["metadata"]["uid"]]

    def context(self, record: PodRecord) -> PodContext:
        return PodContext(record, self.parts)

    async def run(self, body: Object | None = None) -> PodRecord:
        """A pod of this node whose containers run."""
        record = self.add(body)
        await loop.reconcile(self.context(record))
        return record

    async def observed(self, record: PodRecord) -> PodContext:
        """The context of a pass that has observed the pod."""
        pod = self.context(record)
        await observe(pod)
        return pod

    def grant(self, record: PodRecord, cpu: str, memory: str = "64Mi") -> None:
        """Puts another size into the spec, and allocates it at once."""
        self.api.revision = max(self.api.revision, 1000)
        self.built.tracking.roster.changed(record.pod, resized(record.pod, cpu, memory, revision=1000))
        self.api.pods[record.name] = record.pod
        self.built.allocation.allocations.grant(record, record.desired)

    async def stop(self) -> None:
        await self.tasks.stop()
        self.ledger.close()
