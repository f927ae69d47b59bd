"""Static pods: a folder of manifests, followed as it changes, against the real API server and the fake runtime."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.agent.agent import Agent
from podfit.api.registry.kinds import NODE, POD
from podfit.client.rest import Client
from podfit.client.transport import ClientRequest, Reply, Stream, Unreachable
from podfit.compose import node_user

CAPACITY = {"cpu": "2", "memory": "4Gi"}


def manifest(command: str = "sleep 1d", name: str = "web") -> str:
    body: dict[str, Any] = {
        "terminationGracePeriodSeconds": 5,
        "containers": [{"name": "c", "image": "busybox:1", "command": ["sh", "-c", command]}],
    }
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "manifests"
    made.mkdir()
    return made


async def running_node(cluster: Cluster, folder: Path) -> TestNode:
    node = await cluster.node("node1", user=node_user("node1"), static_dir=folder, capacity=CAPACITY)
    await node.quiet()
    return node


def attempts(node: TestNode) -> list[tuple[str, int]]:
    return [(container.config.command[-1], container.config.attempt) for container in node.machine.containers.values()]


async def phase(cluster: Cluster) -> str:
    found = await cluster.client.find(POD, "default", "web-node1")
    return str(found["status"].get("phase")) if found is not None else ""


async def reported(node: TestNode, done: Any) -> None:
    """Without virtual time: only the kernel's events wake the agent."""
    async with asyncio.timeout(10):
        while not done():
            await asyncio.sleep(0.01)
    await node.quiet()


async def test_a_manifest_runs_and_shows_a_mirror(cluster: Cluster, folder: Path) -> None:
    (folder / "web.yaml").write_text(manifest())
    node = await running_node(cluster, folder)
    mirror = await cluster.pod("web-node1")
    assert "kubernetes.io/config.mirror" in mirror["metadata"]["annotations"]
    assert mirror["status"]["phase"] == "Running"
    uid = (await cluster.client.get(NODE, "", "node1"))["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node1", "uid": uid, "controller": True}
    assert mirror["metadata"]["ownerReferences"] == [owner]
    (folder / "web.yaml").unlink()
    await reported(node, lambda: all(record.termination for record in node.agent.records.values()))
    await node.pass_time(3)
    assert node.machine.pods and await phase(cluster) == "Running"
    await node.pass_time(3)
    assert not node.machine.pods
    assert await phase(cluster) == ""


async def test_a_manifest_is_seen_the_moment_it_is_written(cluster: Cluster, folder: Path) -> None:
    node = await running_node(cluster, folder)
    (folder / "web").write_text(manifest())
    await reported(node, lambda: node.machine.pods)
    assert await phase(cluster) == "Running"


async def test_hidden_files_folders_and_nonsense_are_not_changed(cluster: Cluster, folder: Path) -> None:
    (folder / ".web.yaml.swp").write_text(manifest())
    (folder / "more.yaml").mkdir()
    (folder / "nonsense.yaml").write_text("kind: [")
    half: dict[str, Any] = json.loads(manifest(name="half"))
    del half["spec"]["containers"][0]["image"]
    (folder / "half.yaml").write_text(json.dumps(half))
    half["spec"] = {"containers": [{"name": "c", "image": "i"}], "initContainers": [{"name": "i", "image": 5}]}
    (folder / "other.yaml").write_text(json.dumps(half))
    half["spec"] = {"containers": [{"name": "c", "image": "i", "resources": {"limits": ["cpu"]}}]}
    (folder / "sizes.yaml").write_text(json.dumps(half))
    (folder / "web.yaml").write_text(manifest())
    node = await running_node(cluster, folder)
    assert len(node.machine.pods) == 1


async def test_rewriting_a_manifest_with_the_same_text_changes_nothing(cluster: Cluster, folder: Path) -> None:
    (folder / "web.yaml").write_text(manifest())
    node = await running_node(cluster, folder)
    before, mirror = attempts(node), await cluster.pod("web-node1")
    os.utime(folder / "web.yaml", (1, 1))
    (folder / "other.yaml").write_text(manifest(name="other"))
    await reported(node, lambda: len(node.machine.pods) == 2)
    await node.pass_time(8)
    assert attempts(node)[:1] == before
    assert (await cluster.pod("web-node1"))["metadata"]["uid"] == mirror["metadata"]["uid"]


async def test_a_changed_manifest_waits_until_the_old_pod_is_gone(cluster: Cluster, folder: Path) -> None:
    (folder / "web.yaml").write_text(manifest())
    node = await running_node(cluster, folder)
    (folder / "web.yaml").write_text(manifest("sleep 2d"))
    await reported(node, lambda: any(record.termination for record in node.agent.records.values()))
    await node.pass_time(3)
    assert attempts(node) == [("sleep 1d", 0)]
    await node.pass_time(6)
    assert attempts(node) == [("sleep 2d", 0)]
    assert await phase(cluster) == "Running"


async def test_a_manifest_that_returns_while_its_pod_leaves_runs_again(cluster: Cluster, folder: Path) -> None:
    """Equal text gives an equal UID: the pod that is removed must not take its replacement with it."""
    (folder / "web.yaml").write_text(manifest())
    node = await running_node(cluster, folder)
    (folder / "web.yaml").unlink()
    await reported(node, lambda: any(record.termination for record in node.agent.records.values()))
    (folder / "web.yaml").write_text(manifest())
    await node.pass_time(3)
    assert all(record.termination for record in node.agent.records.values())
    await node.pass_time(6)
    assert attempts(node) == [("sleep 1d", 0)]
    assert [record.termination for record in node.agent.records.values()] == [None]
    assert await phase(cluster) == "Running"


class Nobody:
    """An unreachable API server."""

    async def request(self, ask: ClientRequest) -> Reply:
        raise Unreachable("connection refused")

    def stream(self, ask: ClientRequest) -> AbstractAsyncContextManager[Stream]:
        raise Unreachable("connection refused")

    async def close(self) -> None:
        return


async def test_static_pods_need_no_api_server(cluster: Cluster, folder: Path) -> None:
    """The API server itself may be a static pod."""
    (folder / "web.yaml").write_text(manifest())
    node = TestNode(cluster, "node1", {"static_dir": folder, "capacity": CAPACITY}, node_user("node1"))
    node.agent = Agent(Client(Nobody()), node.runtime, node.config, cluster.clock)
    await node.agent.start()
    await reported(node, lambda: attempts(node) == [("sleep 1d", 0)])
    (folder / "more.yaml").write_text(manifest(name="more"))
    await reported(node, lambda: len(node.machine.pods) == 2)
    assert not node.agent.synced.is_set()
    await node.agent.stop()
    await node.restart()
    cluster.nodes.append(node)
    assert attempts(node) == [("sleep 1d", 0), ("sleep 1d", 0)]
    assert await phase(cluster) == "Running"


@pytest.mark.parametrize("options", [{"gracePeriodSeconds": 0}, {}], ids=["at once", "gracefully"])
async def test_a_deleted_mirror_pod_is_recreated(cluster: Cluster, folder: Path, options: dict[str, Any]) -> None:
    (folder / "web.yaml").write_text(manifest())
    node = await running_node(cluster, folder)
    first = await cluster.pod("web-node1")
    await cluster.client.delete(POD, "default", "web-node1", options)

    async def another() -> bool:
        found = await cluster.client.find(POD, "default", "web-node1")
        return found is not None and found["metadata"]["uid"] != first["metadata"]["uid"]

    async with asyncio.timeout(10):
        while not await another():
            await asyncio.sleep(0.01)
    await node.quiet()
    second = await cluster.pod("web-node1")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert second["status"]["phase"] == "Running"
    assert attempts(node) == [("sleep 1d", 0)]


async def test_a_mirror_deleted_while_the_agent_was_away_comes_back(cluster: Cluster, folder: Path) -> None:
    (folder / "web.yaml").write_text(manifest())
    node = await running_node(cluster, folder)
    first = await cluster.pod("web-node1")
    await node.stop()
    await cluster.client.delete(POD, "default", "web-node1")
    await node.restart()
    await node.pass_time(3)
    second = await cluster.pod("web-node1")
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert "deletionTimestamp" not in second["metadata"]
    assert attempts(node) == [("sleep 1d", 0)]


async def test_a_manifest_taken_away_while_the_agent_was_away_leaves_nothing(cluster: Cluster, folder: Path) -> None:
    (folder / "web.yaml").write_text(manifest())
    node = await running_node(cluster, folder)
    await node.stop()
    (folder / "web.yaml").unlink()
    await node.restart()
    await node.pass_time(8)
    assert not node.machine.pods
    assert await phase(cluster) == ""


async def test_a_manifest_gets_the_defaults_that_an_api_server_would_give_it(cluster: Cluster, folder: Path) -> None:
    body: dict[str, Any] = json.loads(manifest())
    sizes = {"limits": {"cpu": "100m", "memory": "32Mi"}}
    body["spec"]["containers"][0]["resources"] = sizes
    body["spec"]["initContainers"] = [
        {"name": "side", "image": "busybox", "command": ["sleep", "1d"], "restartPolicy": "Always", "resources": sizes}
    ]
    (folder / "web.yaml").write_text(json.dumps(body))
    await running_node(cluster, folder)
    mirror = await cluster.pod("web-node1")
    assert mirror["status"]["qosClass"] == "Guaranteed"
    assert mirror["status"]["initContainerStatuses"][0]["allocatedResources"] == sizes["limits"]
    assert mirror["spec"]["initContainers"][0]["imagePullPolicy"] == "Always"
    assert mirror["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"


async def test_a_manifest_that_needs_objects_of_the_api_is_refused_once(
    cluster: Cluster, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    body: dict[str, Any] = json.loads(manifest())
    body["spec"]["volumes"] = [{"name": "v", "configMap": {"name": "settings"}}]
    (folder / "web.yaml").write_text(json.dumps(body))
    node = await running_node(cluster, folder)
    await node.pass_time(10)
    assert not node.machine.pods
    said = [record.getMessage() for record in caplog.records if record.name == "podfit.agent.roster.static"]
    assert said == [f"static pod {folder / 'web.yaml'} cannot be used: static pods may not reference configmaps"]
