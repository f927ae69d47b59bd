"""The Node and its Lease as an agent maintains them, against the real API server."""

from __future__ import annotations

from typing import Any

from tests.support.cluster.nodes import Cluster, TestNode

from podfit.api.registry.kinds import LEASE, NODE
from podfit.client.rest import STRATEGIC


async def test_the_node_registers_with_what_it_has_and_renews_its_lease(cluster: Cluster, node: TestNode) -> None:
    shown = await cluster.client.get(NODE, "", "node1")
    assert shown["status"]["allocatable"]["cpu"] == "2"
    assert shown["metadata"]["labels"]["kubernetes.io/hostname"] == "node1"
    assert "InPlacePodVerticalScalingInitContainers" in shown["status"]["declaredFeatures"]
    assert {condition["type"]: condition["status"] for condition in shown["status"]["conditions"]}["Ready"] == "True"
    before = (await cluster.client.get(LEASE, "kube-node-lease", "node1"))["spec"]["renewTime"]
    await node.pass_time(11)
    assert (await cluster.client.get(LEASE, "kube-node-lease", "node1"))["spec"]["renewTime"] > before


async def test_a_renewal_preserves_what_others_wrote_in_the_lease(cluster: Cluster, node: TestNode) -> None:
    place = (LEASE, "kube-node-lease", "node1")
    await cluster.client.patch(*place, {"metadata": {"labels": {"theirs": "1"}}}, fieldManager="others")
    before = await cluster.client.get(*place)
    # The next renewal conflicts, because it is based on a Node without the label.
    await node.pass_time(21)
    after = await cluster.client.get(*place)
    assert after["spec"]["renewTime"] > before["spec"]["renewTime"]
    assert after["metadata"]["labels"] == {"theirs": "1"}
    assert _owners(after) == _owners(before)


def _owners(shown: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in shown["metadata"]["managedFields"]}


async def test_foreign_capacity_survives_the_heartbeat(cluster: Cluster, node: TestNode) -> None:
    change = {"status": {"capacity": {"dummy.com/dummy": "123"}}}
    await cluster.client.patch(NODE, "", "node1", change, "status", STRATEGIC)
    await node.pass_time(400, 100)
    shown = (await cluster.client.get(NODE, "", "node1"))["status"]
    assert shown["capacity"]["dummy.com/dummy"] == shown["allocatable"]["dummy.com/dummy"] == "123"


async def test_an_extended_resource_added_to_the_node_is_available_at_once(cluster: Cluster, node: TestNode) -> None:
    change = {"status": {"capacity": {"dummy.com/dummy": "4"}}}
    await cluster.client.patch(NODE, "", "node1", change, "status", STRATEGIC)
    await node.quiet()
    shown = (await cluster.client.get(NODE, "", "node1"))["status"]
    assert shown["allocatable"]["dummy.com/dummy"] == "4"


async def test_an_extended_resource_removed_from_the_node_is_not_available(cluster: Cluster, node: TestNode) -> None:
    for text in ("4", None):
        change = {"status": {"capacity": {"dummy.com/dummy": text}}}
        await cluster.client.patch(NODE, "", "node1", change, "status", STRATEGIC)
        await node.quiet()
    assert "dummy.com/dummy" not in (await cluster.client.get(NODE, "", "node1"))["status"]["allocatable"]


async def test_a_deleted_node_object_comes_back(cluster: Cluster, node: TestNode) -> None:
    await cluster.client.delete(NODE, "", "node1")
    await node.pass_time(400, 50)
    assert await cluster.client.find(NODE, "", "node1") is not None


async def test_deregistering_takes_the_node_away(cluster: Cluster) -> None:
    leaving = await cluster.node("leaving", deregister=True)
    await leaving.stop()
    assert await cluster.client.find(NODE, "", "leaving") is None
