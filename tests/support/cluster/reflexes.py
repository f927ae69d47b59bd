"""A cluster for tests of the memory reflex: a node on real cgroups, an updater, and a pod that fills its memory."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.cluster.nodes import Cluster

from podfit.agent.agent import Agent
from podfit.agent.config import AgentConfig
from podfit.agent.runtimes.process.runtime import ProcessRuntime
from podfit.api.objects import Object
from podfit.api.pods.reflex import ANNOTATION, MEMORY
from podfit.api.registry.kinds import POD, VPA, kind_named
from podfit.vpa.updater.config import UpdaterConfig
from podfit.vpa.updater.loop import Updater

MI = 1 << 20
REPLICA_SET = kind_named("ReplicaSet")
GROW = """
import sys, time
rate, whole = float(sys.argv[1]), int(sys.argv[2])
held, begun, step = [], time.monotonic(), 1 << 20
for number in range(whole):
    due = begun + number / rate
    pause = due - time.monotonic()
    if pause > 0:
        time.sleep(pause)
    else:
        begun -= pause
    held.append(bytearray(b"x") * step)
print("grown", flush=True)
time.sleep(3600)
"""
"""A program that fills memory up to an amount in MiB, at a maximum rate per second: lost time is not made up for."""


class Reflexive:
    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.cluster, self.client = cluster, cluster.client
        self.runtime = ProcessRuntime(
            folder / "runtime", cgroup_root=f"/podfit-reflex-{secrets.token_hex(4)}", image_fallback="host"
        )
        config = AgentConfig("node1", folder / "agent", capacity={"cpu": "2", "memory": "8Gi"})
        self.agent = Agent(cluster.client, self.runtime, config)
        self.updater = Updater(cluster.client, UpdaterConfig(address=""))

    async def start(self) -> None:
        await self.agent.start()
        await asyncio.wait_for(self.agent.synced.wait(), 30)
        await self.updater.start()

    async def stop(self) -> None:
        await self.updater.stop()
        for uid in list(self.agent.records):
            await self.runtime.remove_pod(uid)
        await self.agent.stop()
        await self.runtime.purge()

    async def pod(
        self, name: str, command: list[str], *, limit: str = "64Mi", most: str = "1Gi", reflex: bool = True, **more: Any
    ) -> Object:
        """A pod of a ReplicaSet that an autoscaler scales; no controller runs that would replace it."""
        resources = {kind: {"cpu": "100m", "memory": limit} for kind in ("requests", "limits")}
        resources["limits"] = {"memory": limit}
        container = {"name": "main", "image": "host", "command": command, "resources": resources}
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
        head = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}}
        owner = await self.client.create(REPLICA_SET, {**head, "spec": spec}, "default")
        policy = {"containerPolicies": [{"containerName": "*", "maxAllowed": {"memory": most}}]}
        await self.client.create(
            VPA,
            {
                "apiVersion": VPA.api_version,
                "kind": VPA.kind,
                "metadata": {"name": name, **more},
                "spec": {
                    "targetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name},
                    "updatePolicy": {"updateMode": "InPlaceOrRecreate"},
                    "resourcePolicy": policy,
                },
            },
            "default",
        )
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": owner["metadata"]["uid"]}
        meta: Object = {"name": name, "labels": {"app": name}, "ownerReferences": [{**reference, "controller": True}]}
        if reflex:
            meta["annotations"] = {ANNOTATION: MEMORY}
        body = {"containers": [container], "nodeName": "node1", "automountServiceAccountToken": False}
        body["restartPolicy"] = "Never"
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body}
        return await self.client.create(POD, made, "default")

    async def until(self, name: str, holds: Any, patience_s: float = 120.0) -> Object:
        """Waits until the condition is true for the pod, and returns the pod."""
        async with asyncio.timeout(patience_s):
            async for _, pod in self.client.watch(POD, "default", fieldSelector=f"metadata.name={name}"):
                if holds(pod):
                    return pod
        raise AssertionError(f"never: {holds}")

    async def limit(self, uid: str) -> int:
        """The memory limit in the cgroup."""
        state = await self.runtime.pod(uid)
        assert state is not None
        return (await self.runtime.container_limits(state.containers[-1].id)).memory_bytes or 0

    async def output(self, uid: str) -> str:
        record = self.agent.records[uid]
        files = sorted(self.agent.maker.log_folder(record).rglob("*.log"))
        return "".join(file.read_text() for file in files)


@asynccontextmanager
async def reflexive(folder: Path) -> AsyncIterator[Reflexive]:
    async with Cluster(folder, enable_admission=("PodResizeValidator",)) as cluster:
        made = Reflexive(folder, cluster)
        await made.start()
        try:
            yield made
        finally:
            await made.stop()
