"""Nodes are assigned parts of the cluster's pod range."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.cluster.expect import all_become, becomes
from tests.support.cluster.whole import Whole

from podfit.api.registry.kinds import EVENT, NODE
from podfit.controllers.nodes.blocks import PodRanges


def has_range(node: Any) -> bool:
    return bool(node and node["spec"].get("podCIDR"))


async def ranges(whole: Whole, *names: str) -> list[list[str]]:
    found = []
    for name in names:
        node: Any = await becomes(whole.client, NODE, "", name, has_range)
        assert node["spec"]["podCIDRs"][0] == node["spec"]["podCIDR"]
        found.append(node["spec"]["podCIDRs"])
    return found


def new_node(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}


async def test_every_node_gets_a_part_of_its_own_of_each_range(tmp_path: Path) -> None:
    settings = PodRanges("10.7.0.0/22,fd00::/60")
    async with Whole(tmp_path, nodes=3, node_name="n", pod_ranges=settings) as whole:
        found = await ranges(whole, "n-1", "n-2", "n-3")
        assert {four for four, _ in found} == {"10.7.0.0/24", "10.7.1.0/24", "10.7.2.0/24"}
        assert {six for _, six in found} == {"fd00::/64", "fd00:0:0:1::/64", "fd00:0:0:2::/64"}


async def test_a_range_that_a_node_already_has_is_kept_and_assigned_to_no_other(tmp_path: Path) -> None:
    async with Whole(tmp_path, nodes=0, pod_ranges=PodRanges("10.7.0.0/23")) as whole:
        await whole.client.create(NODE, new_node("own", podCIDR="10.7.0.128/25", podCIDRs=["10.7.0.128/25"]))
        await whole.client.create(NODE, new_node("other"))
        assert await ranges(whole, "own", "other") == [["10.7.0.128/25"], ["10.7.1.0/24"]]


async def test_a_node_for_which_nothing_is_left_reports_it_and_gets_what_is_freed(tmp_path: Path) -> None:
    async with Whole(tmp_path, nodes=0, pod_ranges=PodRanges("10.7.0.0/24")) as whole:
        await whole.client.create(NODE, new_node("first"))
        assert await ranges(whole, "first") == [["10.7.0.0/24"]]
        await whole.client.create(NODE, new_node("second"))
        events = await all_become(whole.client, EVENT, "default", lambda found: any(map(about_second, found)))
        [said] = filter(about_second, events)
        assert said["message"] == "Node second status is now: CIDRNotAvailable"
        await whole.client.delete(NODE, "", "first")
        assert await ranges(whole, "second") == [["10.7.0.0/24"]]


def about_second(event: Any) -> bool:
    return bool(event["reason"] == "CIDRNotAvailable" and event["involvedObject"]["name"] == "second")


async def test_without_a_range_for_the_cluster_nodes_keep_none(tmp_path: Path) -> None:
    async with Whole(tmp_path) as whole:
        node: Any = await becomes(whole.client, NODE, "", "n1", lambda obj: obj is not None)
        assert "podCIDR" not in node["spec"]
