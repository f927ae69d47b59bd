"""Recorded scenarios with pods that need a node: scheduler, API server and agent together, in virtual time."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import pytest
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.api.objects import Object
from podfit.api.registry.kinds import NODE, POD
from podfit.client.rest import STRATEGIC
from podfit.scheduler import Scheduler, SchedulerConfig

VECTORS = Path(os.environ.get("PODFIT_VECTORS", Path(__file__).parents[2] / ".." / "shared" / "vectors")) / "node"


def _needs_scheduler(file: Path) -> bool:
    scenario = json.loads(file.read_text())
    return any(manifest["kind"] == "Pod" and "nodeName" not in manifest["spec"] for manifest in scenario["manifests"])


FILES = [file for file in sorted(VECTORS.glob("*.json")) if _needs_scheduler(file)]
pytestmark = pytest.mark.skipif(not FILES, reason=f"no recordings in {VECTORS}")


def _told(step: Object) -> set[tuple[str, str, str]]:
    """The scheduler's Events in a step, without those about nodes that joined or left during the recording."""
    found = [(event["pod"], event["reason"], event["message"]) for event in step.get("events") or ()]
    return {row for row in found if row[1] in ("FailedScheduling", "Scheduled")}


async def _cordoned(cluster: Cluster, name: str) -> None:
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"unschedulable": True}}
    await cluster.client.create(NODE, node)


async def _act(cluster: Cluster, scenario: Object, step: Object) -> None:
    verb, *names = step["do"].split()
    manifests = {manifest["metadata"]["name"]: manifest for manifest in scenario["manifests"]}
    if verb == "create":
        for name in names:
            await cluster.client.create(POD, manifests[name.removeprefix("pod/")])
    else:
        name = names[-1].removeprefix("pod/")
        namespace = manifests[name]["metadata"]["namespace"]
        await cluster.client.patch(POD, namespace, name, step["body"], "resize", STRATEGIC)


async def _seen(cluster: Cluster, namespace: str) -> set[tuple[str, str, str]]:
    events = await cluster.events(namespace)
    return {(event["involvedObject"]["name"], event["reason"], event["message"]) for event in events}


async def _wait_for(node: TestNode, cluster: Cluster, namespace: str, wanted: set[tuple[str, str, str]]) -> None:
    for _ in range(200):
        await node.pass_time(0.25, 0.25)
        seen = await _seen(cluster, namespace)
        if wanted <= seen:
            return
    raise AssertionError(f"wanted {wanted}, but told {sorted(row for row in seen if 'chedul' in row[1])}")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_a_recorded_pod_is_refused_and_scheduled_in_the_same_words(file: Path, tmp_path: Path) -> None:
    scenario = json.loads(file.read_text())
    namespace = scenario["manifests"][0]["metadata"]["namespace"]
    sizes = [re.match(r"0/(\d+) nodes", row[2]) for step in scenario["steps"] for row in _told(step)]
    nodes = min(int(size[1]) for size in sizes if size)
    allocatable = {key: text for key, text in scenario["node"]["allocatable"].items() if key != "pods"}
    async with Cluster(tmp_path) as cluster:
        await cluster.namespace(namespace)
        node = await cluster.node(capacity=allocatable)
        for number in range(nodes - 1):
            await _cordoned(cluster, f"other{number}")
        # The node controller removes the taint of a new node once the node reports that it is ready.
        await cluster.client.patch(NODE, "", "node1", {"spec": {"taints": None}})
        scheduler = Scheduler(cluster.client, SchedulerConfig(), cluster.clock)
        task = asyncio.create_task(scheduler.run())
        await asyncio.wait_for(scheduler.ready.wait(), 10)
        try:
            for step in scenario["steps"]:
                await _act(cluster, scenario, step)
                wanted = {row for row in _told(step) if not row[2].startswith("0/") or f"0/{nodes} " in row[2]}
                await _wait_for(node, cluster, namespace, wanted)
                for name, recorded in step["final"]["pods"].items():
                    await _same_end(node, cluster, namespace, name, recorded)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _same_end(node: TestNode, cluster: Cluster, namespace: str, name: str, recorded: Object) -> None:
    async def done() -> bool:
        pod = await cluster.client.get(POD, namespace, name)
        rows = {row["type"]: row["status"] for row in pod["status"].get("conditions") or ()}
        scheduled = recorded["conditions"].get("PodScheduled")
        return bool(pod["status"]["phase"] == recorded["phase"] and rows.get("PodScheduled") == scheduled)

    await node.until(done, 45)
