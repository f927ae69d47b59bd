"""A node whose runtime lost everything, and a server that rejects what the node reports."""

from __future__ import annotations

import shutil
from typing import Any

import msgspec
import pytest
from tests.support.cluster.agentpods import container, create, pod, states
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.agent.runtimes.fake.node import FakeNodeState
from podfit.api.registry.kinds import LEASE, NODE, POD
from podfit.client.rest import STRATEGIC
from podfit.client.transport import ClientRequest, Reply

LARGER = {"requests": {"cpu": "150m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"}}

HOPELESS = {"requests": {"cpu": "100"}, "limits": {"cpu": "100"}}


async def lose_everything(node: TestNode) -> None:
    """The agent restarts without a ledger, on a machine whose runtime has no record of its pods."""
    await node.stop()
    node.machine = FakeNodeState()
    shutil.rmtree(node.config.data_dir, ignore_errors=True)
    await node.restart()
    await node.pass_time(2)


def started(node: TestNode) -> list[str]:
    return sorted(listed.config.name for listed in node.machine.containers.values())


async def look_into(cluster: Cluster, node: TestNode, command: str) -> None:
    look = {"name": "look", "image": "busybox:1", "command": ["sh", "-c", command]}
    added = {"spec": {"ephemeralContainers": [look]}}
    await cluster.client.patch(POD, "default", "p", added, "ephemeralcontainers", STRATEGIC)
    await node.pass_time(2)


async def resized(cluster: Cluster, node: TestNode) -> dict[str, Any]:
    """The pod's status after a resize that must be actuated and reported."""
    await cluster.resize("p", {"spec": {"containers": [{"name": "c", "resources": LARGER}]}})
    await node.pass_time(2)
    status = (await cluster.pod("p"))["status"]
    assert not [condition for condition in status["conditions"] if condition["type"].startswith("PodResize")]
    assert status["containerStatuses"][0]["resources"] == LARGER
    return dict(status)


async def test_a_finished_ephemeral_container_is_not_run_again(cluster: Cluster, node: TestNode) -> None:
    await create(cluster, node, pod())
    await look_into(cluster, node, "exit 4")
    (before,) = (await cluster.pod("p"))["status"]["ephemeralContainerStatuses"]
    assert before["state"]["terminated"]["exitCode"] == 4
    await lose_everything(node)
    assert started(node) == ["c"]
    status = await resized(cluster, node)
    assert status["ephemeralContainerStatuses"] == [before]


async def test_an_ephemeral_container_whose_end_was_missed_is_not_run_again(cluster: Cluster, node: TestNode) -> None:
    await create(cluster, node, pod())
    await look_into(cluster, node, "sleep 1d")
    await lose_everything(node)
    assert started(node) == ["c"]
    (look,) = (await resized(cluster, node))["ephemeralContainerStatuses"]
    ended = look["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")


async def test_a_pod_that_never_restarts_fails_and_keeps_how_its_containers_ended(
    cluster: Cluster, node: TestNode
) -> None:
    """As a pod of a Job: whether it runs again is the Job's decision."""
    body = pod("p", container("done", "exit 0"), container("c"), restartPolicy="Never")
    await create(cluster, node, body)
    await node.pass_time(2)
    (done, _) = (await cluster.pod("p"))["status"]["containerStatuses"]
    assert done["state"]["terminated"]["exitCode"] == 0
    await lose_everything(node)
    status = (await cluster.pod("p"))["status"]
    assert (started(node), status["phase"]) == ([], "Failed")
    assert status["containerStatuses"][0]["state"] == done["state"]
    assert status["containerStatuses"][1]["state"]["terminated"]["reason"] == "ContainerStatusUnknown"


async def test_a_succeeded_container_is_not_restarted_under_on_failure(cluster: Cluster, node: TestNode) -> None:
    init = container("setup", "exit 0")
    body = pod("p", container("c"), container("done", "exit 0"), restartPolicy="OnFailure", initContainers=[init])
    await create(cluster, node, body)
    await node.pass_time(2)
    await lose_everything(node)
    seen = await cluster.pod("p")
    assert started(node) == ["c"]
    assert states(seen) == {"c": "running", "done": "terminated"}
    assert states(seen, "initContainerStatuses") == {"setup": "terminated"}
    await resized(cluster, node)


async def test_a_pod_that_always_restarts_begins_again_with_its_init_containers(
    cluster: Cluster, node: TestNode
) -> None:
    body = pod("p", container("c"), initContainers=[container("setup", "exit 0")])
    await create(cluster, node, body)
    await node.pass_time(2)
    await lose_everything(node)
    assert started(node) == ["c", "setup"]
    await resized(cluster, node)


async def test_a_finished_pod_stays_finished(cluster: Cluster, node: TestNode) -> None:
    await create(cluster, node, pod("p", container("c", "exit 0"), restartPolicy="Never"))
    await node.pass_time(2)
    before = (await cluster.pod("p"))["status"]
    assert before["phase"] == "Succeeded"
    await lose_everything(node)
    assert started(node) == []
    assert (await cluster.pod("p"))["status"] == before


# --- a server that rejects ------------------------------------------------------------------------------------------


class Rejecting:
    """A proxy of the server that rejects status patches that contain any of the given fields."""

    def __init__(self, node: TestNode, path: str, code: int, *fields: str) -> None:
        self._transport = node.agent.client.transport
        self._request, self._path, self._code, self.fields = self._transport.request, path, code, fields
        self._transport.request = self.request  # type: ignore[method-assign]

    async def request(self, ask: ClientRequest) -> Reply:
        if ask.method == "PATCH" and ask.path.endswith(f"{self._path}/status"):
            body = ask.body if isinstance(ask.body, dict) else msgspec.json.decode(ask.body or b"{}")
            if any(field in body["status"] for field in self.fields):
                status = {"kind": "Status", "code": self._code, "reason": "Invalid", "message": "not in this house"}
                return Reply(self._code, msgspec.json.encode(status))
        return await self._request(ask)


@pytest.mark.parametrize("code", [400, 403, 413, 422])
async def test_a_rejected_field_blocks_neither_the_rest_of_the_status_nor_the_pod(
    cluster: Cluster, node: TestNode, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    await create(cluster, node, pod())
    server = Rejecting(node, "/pods/p", code, "containerStatuses")
    await cluster.resize("p", {"spec": {"containers": [{"name": "c", "resources": HOPELESS}]}})
    await node.pass_time(2)
    conditions = {
        condition["type"]: condition.get("reason") for condition in (await cluster.pod("p"))["status"]["conditions"]
    }
    assert conditions["PodResizePending"] == "Infeasible"
    await cluster.resize("p", {"spec": {"containers": [{"name": "c", "resources": LARGER}]}})
    await node.pass_time(2)
    seen = await cluster.pod("p")
    assert seen["status"]["observedGeneration"] == seen["metadata"]["generation"]
    assert seen["status"]["containerStatuses"][0]["resources"] != LARGER
    (found, *_) = [record for record in caplog.records if "rejected parts of its status" in record.getMessage()]
    assert found.levelname == "WARNING" and "containerStatuses: " in found.getMessage()
    server.fields = ()
    await node.until(lambda: _shows_larger(cluster), limit_s=60)


async def _shows_larger(cluster: Cluster) -> bool:
    status = (await cluster.pod("p"))["status"]
    return bool(status["containerStatuses"][0]["resources"] == LARGER)


@pytest.mark.parametrize("code", [403, 409, 413, 422])
async def test_a_pod_whose_status_is_rejected_altogether_ends_when_it_is_deleted(
    cluster: Cluster, node: TestNode, code: int
) -> None:
    await create(cluster, node, pod())
    fields = ("phase", "conditions", "containerStatuses", "observedGeneration", "resources", "allocatedResources")
    Rejecting(node, "/pods/p", code, *fields)
    await cluster.client.delete(POD, "default", "p")
    await node.pass_time(20)
    assert await cluster.client.find(POD, "default", "p") is None
    assert not node.machine.pods


async def test_a_rejected_status_is_not_sent_again_and_again(
    cluster: Cluster, node: TestNode, caplog: pytest.LogCaptureFixture
) -> None:
    await create(cluster, node, pod())
    Rejecting(node, "/pods/p", 422, "containerStatuses")
    await cluster.resize("p", {"spec": {"containers": [{"name": "c", "resources": LARGER}]}})
    await node.pass_time(2)
    before = len(caplog.records)
    uid = (await cluster.pod("p"))["metadata"]["uid"]
    for _ in range(5):
        node.agent.enqueue(uid)
        await node.quiet()
    assert len([item for item in caplog.records[before:] if "rejected parts" in item.getMessage()]) == 0


@pytest.mark.parametrize("code", [400, 403, 413, 422])
@pytest.mark.parametrize("fields", [("nodeInfo",), ("capacity", "addresses")])
async def test_a_rejected_field_of_a_node_does_not_stop_its_heartbeat(
    cluster: Cluster, node: TestNode, code: int, fields: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    before = await _beats(cluster)
    Rejecting(node, "/nodes/node1", code, *fields)
    await node.pass_time(node.config.status_s + 60, 10)
    after = await _beats(cluster)
    assert after["Ready"] > before["Ready"]
    assert f"rejected status.{fields[0]}" in caplog.text


async def test_a_node_whose_status_is_rejected_altogether_renews_its_lease(cluster: Cluster, node: TestNode) -> None:
    every = ("conditions", "capacity", "allocatable", "nodeInfo", "addresses", "daemonEndpoints", "declaredFeatures")
    Rejecting(node, "/nodes/node1", 403, *every, "features")
    await node.pass_time(node.config.status_s + 60, 10)
    before = await _renewed(cluster)
    await node.pass_time(60, 10)
    assert await _renewed(cluster) > before


async def _beats(cluster: Cluster) -> dict[str, str]:
    conditions = (await cluster.client.get(NODE, "", "node1"))["status"]["conditions"]
    return {condition["type"]: condition["lastHeartbeatTime"] for condition in conditions}


async def _renewed(cluster: Cluster) -> str:
    return str((await cluster.client.get(LEASE, "kube-node-lease", "node1"))["spec"]["renewTime"])
