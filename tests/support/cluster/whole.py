"""A whole cluster in one process for tests: everything of `podfit up`, on a store in memory and fake nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.cluster.expect import becomes
from tests.support.cluster.invariants import expect_node_is_sound

from podfit.agent.runtimes.fake.runtime import FakeRuntime
from podfit.api.objects import Object
from podfit.api.registry.kinds import NAMESPACE, kind_named
from podfit.api.resize.dialects import LABEL
from podfit.apiserver.front.local import local_client
from podfit.apiserver.request import ADMIN
from podfit.compose import Up, UpOptions

ACCOUNT = kind_named("ServiceAccount")


class Whole:
    def __init__(self, folder: Path, **options: Any) -> None:
        chosen: dict[str, Any] = {"store": "memory", "runtime": "fake", "node_name": "n1", "vpa": False, **options}
        self.up = Up(UpOptions(folder, **chosen))
        self.client = local_client(self.up.server, ADMIN, "test")

    async def __aenter__(self) -> Whole:
        await self.up.start()
        if self.up.options.controllers:
            await becomes(self.client, ACCOUNT, "default", "default", lambda account: account is not None)
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            for agent in self.up.agents:
                if isinstance(agent.runtime, FakeRuntime) and agent.synced.is_set():
                    expect_node_is_sound(agent, agent.runtime.state)
        finally:
            await self.up.stop()

    async def namespace(self, name: str, dialect: str = "") -> str:
        """Creates a namespace. `dialect`: the value of its dialect label."""
        meta: Object = {"name": name, **({"labels": {LABEL: dialect}} if dialect else {})}
        await self.client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        await becomes(self.client, ACCOUNT, name, "default", lambda account: account is not None)
        return name


def pod_spec(cpu: str = "100m", memory: str = "32Mi", node: str = "n1", **more: Any) -> Object:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    container = {"name": "c", "image": "host", "command": ["sleep", "3600"], "resources": resources}
    bound = {"nodeName": node} if node else {}
    return {"containers": [container], "terminationGracePeriodSeconds": 0, **bound, **more}


def workload(kind: str, name: str, replicas: int | None = 2, **spec: Any) -> Object:
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet whose pods are bound to node n1."""
    pod = spec.pop("pod", None) or pod_spec()
    body: Object = {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        **spec,
    }
    if replicas is not None:
        body["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": body}
