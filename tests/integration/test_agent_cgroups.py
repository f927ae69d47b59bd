"""The agent on real cgroups: recorded scenarios of one pod reach the same state, with the same values in the kernel.

Only scenarios that create and resize sleeping pods are used, because they do not depend on time.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.nodes import Cluster
from tests.support.cluster.recordings import PAGE, differences, is_artefact, weightless

from podfit.agent.agent import Agent
from podfit.agent.config import AgentConfig
from podfit.agent.runtimes.process.runtime import ProcessRuntime
from podfit.agent.runtimes.values import RUNNING, LimitsChange, RuntimeFailure
from podfit.api.registry.kinds import POD
from podfit.api.status import ApiError
from podfit.client.rest import STRATEGIC

VECTORS = Path(os.environ.get("PODFIT_VECTORS", Path(__file__).parents[2] / ".." / "shared" / "vectors")) / "node"
pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root and writable cgroups")]


def is_patient(scenario: dict[str, Any]) -> bool:
    """Containers that ignore SIGTERM take two seconds to restart."""
    return "resizePolicy" in json.dumps(scenario["manifests"])


def is_plain(scenario: dict[str, Any]) -> bool:
    pods = [manifest for manifest in scenario["manifests"] if manifest["kind"] == "Pod"]
    if len(pods) != 1 or len(scenario["manifests"]) != 1 or "nodeName" not in pods[0]["spec"]:
        return False
    containers = [*(pods[0]["spec"].get("initContainers") or ()), *pods[0]["spec"]["containers"]]
    sleeping = all(container["command"] == ["sh", "-c", "sleep 1d"] for container in containers)
    steps = all(step["do"] in ("create pod/p1", "patch resize pod/p1") for step in scenario["steps"])
    present = all("absent" not in container["image"] and "readinessProbe" not in container for container in containers)
    return sleeping and steps and present


SCENARIOS = {file: json.loads(file.read_text()) for file in sorted(VECTORS.glob("*.json"))}
FILES = [
    pytest.param(file, marks=[pytest.mark.slow] if is_patient(scenario) else [], id=file.stem)
    for file, scenario in SCENARIOS.items()
    if is_plain(scenario)
]


class RealNode:
    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.root = f"/podfit-agent-{secrets.token_hex(4)}"
        self.runtime = ProcessRuntime(folder / "runtime", cgroup_root=self.root, image_fallback="host")
        self.config = AgentConfig("node1", folder / "agent", capacity={"cpu": "2", "memory": "24580016Ki"})
        self.agent = Agent(cluster.client, self.runtime, self.config)

    async def start(self) -> None:
        await self.agent.start()
        await asyncio.wait_for(self.agent.synced.wait(), 30)

    async def until(self, done: Any, limit_s: float = 20.0) -> list[str]:
        """Polls `done` (a coroutine function that returns what is missing) until it returns nothing or time is up."""
        end = asyncio.get_running_loop().time() + limit_s
        while (missing := await done()) and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.01)
        return missing  # type: ignore[no-any-return]

    async def kernel(self, uid: str) -> dict[str, dict[str, int | None]]:
        state = await self.runtime.pod(uid)
        assert state is not None
        pod = await self.runtime.pod_limits(uid)
        found = {"(pod)": pod}
        for container in state.containers:
            if container.state == RUNNING:
                found[
                    container.name + (f"#{container.attempt}" if container.attempt else "")
                ] = await self.runtime.container_limits(container.id)
        return {
            name: {
                "cpu.shares": limits.cpu_shares,
                "cpu.cfs_quota_us": limits.cpu_quota_us,
                "memory.limit_in_bytes": None if limits.memory_bytes is None else limits.memory_bytes // PAGE,
            }
            for name, limits in found.items()
        }


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RealNode]:
    async with Cluster(tmp_path, enable_admission=("PodResizeValidator",)) as cluster:
        real = RealNode(cluster, tmp_path)
        try:
            await real.start()
        except RuntimeFailure as error:
            pytest.skip(f"no cgroups to write here: {error}")
        yield real
        for uid in list(real.agent.records):
            await real.runtime.remove_pod(uid)
        await real.agent.stop()
        await real.runtime.purge()


def recorded_kernel(step: dict[str, Any]) -> dict[str, dict[str, int | None]]:
    found: dict[str, dict[str, int | None]] = {}
    for who, files in ((step.get("final") or {}).get("cgroups") or {}).items():
        name = who.partition("/")[2]
        if name and name != "(sandbox)":
            memory = int(files["memory.limit_in_bytes"])
            quota = int(files["cpu.cfs_quota_us"])
            found[name] = {
                "cpu.shares": int(files["cpu.shares"]),
                "cpu.cfs_quota_us": None if quota < 0 else quota,
                "memory.limit_in_bytes": None if memory > 1 << 60 else memory // PAGE,
            }
    return found


def shares_of_limit(found: dict[str, int | None]) -> int:
    """1024 shares are a whole CPU, which is a quota of 100 ms."""
    return (found["cpu.cfs_quota_us"] or 0) * 1024 // 100_000


@pytest.mark.parametrize("file", FILES)
async def test_a_recorded_resize_leaves_the_same_values_in_the_kernel(file: Path, node: RealNode) -> None:
    scenario = SCENARIOS[file]
    manifest = scenario["manifests"][0]
    namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
    await node.cluster.namespace(namespace)
    client = node.cluster.client
    for step in scenario["steps"]:
        try:
            if step["do"].startswith("create"):
                await client.create(POD, manifest)
            else:
                await client.patch(POD, namespace, name, step["body"], "resize", STRATEGIC)
        except ApiError as error:
            assert error.code == step["response"]["code"]
        recorded = step["final"]["pods"][name]

        async def missing(recorded: dict[str, Any] = recorded, step: dict[str, Any] = step) -> list[str]:
            pod = await client.get(POD, namespace, name)
            return differences(recorded, pod, is_artefact(step))

        assert not await node.until(missing), step["do"]
        uid = (await client.get(POD, namespace, name))["metadata"]["uid"]
        if not is_artefact(step):
            found, expected = await node.kernel(uid), recorded_kernel(step)
            for member in weightless((await client.get(POD, namespace, name))["spec"]) & found.keys() & expected.keys():
                expected[member]["cpu.shares"] = shares_of_limit(found[member])
            assert found == expected, step["do"]


async def test_memory_in_use_is_not_taken_away_and_the_resize_ends_when_it_is_released(node: RealNode) -> None:
    hold = "import sys,time; x=bytearray(64<<20); time.sleep(2); del x; time.sleep(1000)"
    container = {
        "name": "c",
        "image": "host",
        "command": ["python3", "-c", hold],
        "resources": {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
    }
    spec = {"nodeName": "node1", "hostNetwork": True, "automountServiceAccountToken": False, "containers": [container]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    uid = (await node.cluster.client.create(POD, body))["metadata"]["uid"]

    async def holding() -> list[str]:
        state = await node.runtime.pod(uid)
        usage = (await node.runtime.pod_usage(uid)).memory_bytes if state is not None else 0
        return [] if usage > 60 << 20 else ["not yet"]

    assert not await node.until(holding)
    smaller = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "40Mi"}}
    await node.cluster.resize("p", {"spec": {"containers": [{"name": "c", "resources": smaller}]}})

    async def refused() -> list[str]:
        conditions = {
            condition["type"]: condition for condition in (await node.cluster.pod("p"))["status"]["conditions"]
        }
        shown = conditions.get("PodResizeInProgress") or {}
        return [] if "below current usage" in shown.get("message", "") else [str(conditions)]

    async def done() -> list[str]:
        seen = (await node.cluster.pod("p"))["status"]
        types = {condition["type"] for condition in seen["conditions"]}
        good = seen["containerStatuses"][0]["resources"] == smaller and "PodResizeInProgress" not in types
        return [] if good else [str(seen)]

    assert not await node.until(refused)
    assert not await node.until(done)
    assert (await node.cluster.pod("p"))["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_processes_outlive_the_agent_and_a_resize_made_meanwhile_is_done_at_its_start(node: RealNode) -> None:
    size = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
    container = {"name": "c", "image": "host", "command": ["sleep", "1000"], "resources": size}
    spec = {"nodeName": "node1", "hostNetwork": True, "automountServiceAccountToken": False, "containers": [container]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    uid = (await node.cluster.client.create(POD, body))["metadata"]["uid"]

    async def shows(limit: str) -> list[str]:
        seen = (await node.cluster.pod("p")).get("status") or {}
        shown = (seen.get("containerStatuses") or [{}])[0]
        return [] if (shown.get("resources") or {}).get("limits", {}).get("cpu") == limit else [str(seen)]

    assert not await node.until(lambda: shows("200m"))
    before = await node.runtime.pod(uid)
    assert before is not None
    await node.agent.stop()
    larger = {"limits": {"cpu": "400m"}}
    await node.cluster.resize("p", {"spec": {"containers": [{"name": "c", "resources": larger}]}})

    node.runtime = ProcessRuntime(node.folder / "runtime", cgroup_root=node.root)
    node.agent = Agent(node.cluster.client, node.runtime, node.config)
    await node.start()
    assert not await node.until(lambda: shows("400m"))
    after = await node.runtime.pod(uid)
    assert after is not None
    assert [listed.pid for listed in after.containers] == [listed.pid for listed in before.containers]
    assert (await node.kernel(uid))["c"]["cpu.cfs_quota_us"] == 40_000


async def test_a_limit_written_into_the_kernel_by_hand_is_reported(node: RealNode) -> None:
    resources = {"requests": {"cpu": "5m", "memory": "64Mi"}, "limits": {"cpu": "5m", "memory": "64Mi"}}
    container = {"name": "c", "image": "host", "command": ["sleep", "1d"], "resources": resources}
    spec = {"nodeName": "node1", "automountServiceAccountToken": False, "containers": [container]}
    meta = {"name": "p", "namespace": "default"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**spec, "terminationGracePeriodSeconds": 0}}
    uid = (await node.cluster.client.create(POD, body))["metadata"]["uid"]

    async def shown() -> Any:
        status = (await node.cluster.pod("p")).get("status") or {}
        return ((status.get("containerStatuses") or [{}])[0].get("resources") or {}).get("limits")

    async def unlike(expected: Any) -> list[str]:
        found = await shown()
        return [] if found == expected else [str(found)]

    assert not await node.until(lambda: unlike(resources["limits"]))
    state = await node.runtime.pod(uid)
    assert state is not None
    await node.agent.drift.check()
    await node.agent.idle()
    assert await shown() == resources["limits"], "the kernel's minimum of 10m is not shown"

    change = LimitsChange(cpu_quota_us=20_000, memory_bytes=96 << 20)
    await node.runtime.update_pod(uid, change)
    await node.runtime.update_container(state.containers[0].id, change)
    await node.agent.drift.check()
    assert not await node.until(lambda: unlike({"cpu": "200m", "memory": "96Mi"}))
    await node.agent.idle()
    reported = [event["reason"] for event in await node.cluster.events()]
    assert reported.count("CgroupChanged") == 1
