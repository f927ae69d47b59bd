"""The flow-control example of the resize KEP, from beginning to end on one node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.agent.runtimes.values import Limits, RuntimeFailure
from podfit.api.registry.kinds import POD
from podfit.api.resize.states import Actuated, Allocated


def pod(name: str, cpu: str) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "busybox:1",
        "command": ["sleep", "1d"],
        "resources": {"requests": {"cpu": cpu}},
        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
    }
    spec = {"nodeName": "node1", "automountServiceAccountToken": False, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def asking_for(cpu: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}


class Story:
    """The fields that each line of the example compares."""

    def __init__(self, cluster: Cluster, node: TestNode) -> None:
        self.cluster, self.node = cluster, node

    async def expect(
        self, spec: str, allocated: str, actuated: str, shown: str, shares: int, **conditions: str
    ) -> None:
        seen = await self.cluster.pod("p")
        uid = seen["metadata"]["uid"]
        status = seen["status"]["containerStatuses"][0]
        ledger = self.node.agent.ledger
        machine = self.node.machine.pods[uid]
        found = {
            condition["type"]: condition.get("reason", "")
            for condition in seen["status"]["conditions"]
            if "Resize" in condition["type"]
        }
        assert seen["spec"]["containers"][0]["resources"]["requests"]["cpu"] == spec
        assert status["allocatedResources"]["cpu"] == allocated
        assert ledger.allocated(uid) == Allocated({"c": {"requests": {"cpu": allocated}}})
        assert ledger.actuated(uid) == Actuated({"c": {"requests": {"cpu": actuated}}})
        assert status["resources"]["requests"]["cpu"] == shown
        assert [container.limits.cpu_shares for container in machine.containers.values()] == [shares]
        assert found == conditions


async def test_the_flow_control_story_of_the_kep(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        node = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"})
        story = Story(cluster, node)
        await cluster.client.create(POD, pod("other", "300m"))

        # A new pod is created, and the node runs it.
        await cluster.client.create(POD, pod("p", "1"))
        await node.quiet()
        await story.expect(spec="1", allocated="1", actuated="1", shown="1", shares=1024)

        # Resize #1 comes while the agent is down; it is admitted as soon as the agent is back.
        await node.stop()
        await cluster.resize("p", asking_for("1500m"))
        await node.restart()
        await story.expect(spec="1500m", allocated="1500m", actuated="1500m", shown="1500m", shares=1536)

        # Resize #2 fits the node, but not now.
        await cluster.resize("p", asking_for("2"))
        await node.quiet()
        await story.expect(
            spec="2", allocated="1500m", actuated="1500m", shown="1500m", shares=1536, PodResizePending="Deferred"
        )

        # Resize #3 fits.
        await cluster.resize("p", asking_for("1600m"))
        await node.quiet()
        await story.expect(spec="1600m", allocated="1600m", actuated="1600m", shown="1600m", shares=1638)

        # Resize #4 exceeds this node; it is never retried, and a restart does not change that.
        await cluster.resize("p", asking_for("100"))
        await node.quiet()
        hopeless = {"spec": "100", "allocated": "1600m", "actuated": "1600m", "shown": "1600m", "shares": 1638}
        await story.expect(**hopeless, PodResizePending="Infeasible")  # type: ignore[arg-type]
        await node.restart()
        await story.expect(**hopeless, PodResizePending="Infeasible")  # type: ignore[arg-type]
        seen = await cluster.pod("p")
        message = next(
            condition["message"]
            for condition in seen["status"]["conditions"]
            if condition["type"] == "PodResizePending"
        )
        assert message == "Node didn't have enough capacity: cpu, requested: 100000, capacity: 2000"

        # All of it is in Events and the pod's story.
        reported = [chapter["what"] for chapter in node.agent.story(seen["metadata"]["uid"])]
        assert "adopted" in reported


async def test_a_resize_that_failed_half_way_is_finished_when_memory_is_released(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        node = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"})
        body = pod("p", "100m")
        body["spec"]["containers"][0]["resources"] = {
            "requests": {"cpu": "100m", "memory": "64Mi"},
            "limits": {"cpu": "1", "memory": "256Mi"},
        }
        created = await cluster.client.create(POD, body)
        uid = created["metadata"]["uid"]
        node.runtime.set_load(uid, "c", memory=float(128 << 20))
        await node.quiet()
        smaller = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "100Mi"}}
        await cluster.resize("p", {"spec": {"containers": [{"name": "c", "resources": smaller}]}})
        await node.quiet()
        conditions = {condition["type"]: condition for condition in (await cluster.pod("p"))["status"]["conditions"]}
        failing = conditions["PodResizeInProgress"]
        assert failing["reason"] == "Error"
        assert f"memory limit ({100 << 20}) below current usage ({128 << 20})" in failing["message"]
        assert node.machine.pods[uid].limits.cpu_quota_us == 100_000

        node.runtime.set_load(uid, "c", memory=float(50 << 20))
        await node.quiet()
        seen = await cluster.pod("p")
        assert "PodResizeInProgress" not in {condition["type"] for condition in seen["status"]["conditions"]}
        assert seen["status"]["containerStatuses"][0]["resources"] == smaller
        assert node.machine.pods[uid].limits.memory_bytes == 100 << 20


async def test_a_resize_ends_with_the_pod_whose_memory_stood_in_its_way(tmp_path: Path) -> None:
    body = pod("p", "100m")
    body["spec"]["restartPolicy"] = "Never"
    body["spec"]["containers"][0]["command"] = ["sleep", "3"]
    body["spec"]["containers"][0]["resources"]["limits"] = {"memory": "200Mi"}
    async with Cluster(tmp_path) as cluster:
        node = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"})
        created = await cluster.client.create(POD, body)
        node.runtime.set_load(created["metadata"]["uid"], "c", memory=float(128 << 20))
        await node.quiet()
        smaller = {"requests": {"memory": "100Mi"}, "limits": {"memory": "100Mi"}}
        await cluster.resize("p", {"spec": {"containers": [{"name": "c", "resources": smaller}]}})
        await node.quiet()
        reported = {event["reason"] for event in await cluster.events() if event["reason"].startswith("Resize")}
        assert reported == {"ResizeStarted", "ResizeError"}
        await node.pass_time(6)
        status = (await cluster.pod("p"))["status"]
        assert status["phase"] == "Succeeded"
        assert not [condition for condition in status["conditions"] if condition["type"].startswith("PodResize")]
        (completed,) = [event for event in await cluster.events() if event["reason"] == "ResizeCompleted"]
        assert '"generation":2' in completed["message"]


@pytest.mark.parametrize(
    "smaller",
    [
        {"requests": {"cpu": "3200m", "memory": "64Mi"}, "limits": {"cpu": "4", "memory": "128Mi"}},
        {"requests": {"cpu": "3500m", "memory": "64Mi"}, "limits": {"cpu": "5", "memory": "256Mi"}},
        {"requests": {"cpu": "3500m", "memory": "96Mi"}, "limits": {"cpu": "4", "memory": "128Mi"}},
    ],
    ids=["decrease", "limits only", "memory only"],
)
async def test_a_node_that_became_smaller_refuses_nothing_that_requests_no_more_of_it(
    smaller: dict[str, Any], tmp_path: Path
) -> None:
    body = pod("p", "3500m")
    body["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "3500m", "memory": "64Mi"},
        "limits": {"cpu": "4", "memory": "128Mi"},
    }
    async with Cluster(tmp_path) as cluster:
        node = await cluster.node(capacity={"cpu": "4", "memory": "4Gi"})
        await cluster.client.create(POD, body)
        await node.quiet()
        node.config = replace(node.config, capacity={"cpu": "3", "memory": "4Gi"})
        await node.restart()
        await cluster.resize("p", {"spec": {"containers": [{"name": "c", "resources": smaller}]}})
        await node.quiet()
        status = (await cluster.pod("p"))["status"]
        assert status["containerStatuses"][0]["resources"] == smaller
        assert not [condition for condition in status["conditions"] if condition["type"].startswith("PodResize")]
        reported = {event["reason"] for event in await cluster.events() if event["reason"].startswith("Resize")}
        assert reported == {"ResizeStarted", "ResizeCompleted"}


async def test_a_container_that_cannot_give_its_memory_back_holds_up_no_other_decrease(tmp_path: Path) -> None:
    """Only that container is skipped; others shrink, nothing grows, and the pod does not shrink."""
    before = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}}
    body = pod("p", "100m")
    (container,) = body["spec"]["containers"]
    body["spec"]["containers"] = [{**container, "name": name, "resources": before} for name in ("full", "idle", "more")]
    after = {
        "full": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "400m", "memory": "100Mi"}},
        "idle": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "100Mi"}},
        "more": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "600m", "memory": "300Mi"}},
    }
    async with Cluster(tmp_path) as cluster:
        node = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"})
        uid = (await cluster.client.create(POD, body))["metadata"]["uid"]
        node.runtime.set_load(uid, "full", memory=float(128 << 20))
        await node.quiet()
        patch = [{"name": name, "resources": resources} for name, resources in after.items()]
        await cluster.resize("p", {"spec": {"containers": patch}})
        await node.quiet()
        status = (await cluster.pod("p"))["status"]
        shown = {
            container_status["name"]: container_status["resources"] for container_status in status["containerStatuses"]
        }
        assert shown == {"full": before, "idle": after["idle"], "more": before}
        assert node.machine.pods[uid].limits.memory_bytes == 3 * (256 << 20)
        (failing,) = [condition for condition in status["conditions"] if condition["type"].startswith("PodResize")]
        assert (failing["type"], failing["reason"]) == ("PodResizeInProgress", "Error")
        assert f'container "full" memory limit ({100 << 20}) below current usage ({128 << 20})' in failing["message"]

        node.runtime.set_load(uid, "full", memory=float(50 << 20))
        await node.quiet()
        status = (await cluster.pod("p"))["status"]
        assert {
            container_status["name"]: container_status["resources"] for container_status in status["containerStatuses"]
        } == after
        assert node.machine.pods[uid].limits.memory_bytes == (100 + 100 + 300) << 20
        assert not [condition for condition in status["conditions"] if condition["type"].startswith("PodResize")]


async def test_a_pods_actual_requests_count_what_is_allocated_to_containers_that_do_not_run(tmp_path: Path) -> None:
    body = pod("p", "100m")
    (container,) = body["spec"]["containers"]
    size = {"requests": {"cpu": "50m", "memory": "16Mi"}}
    done = {**container, "name": "done", "command": ["sh", "-c", "exit 0"], "resources": size}
    body["spec"]["containers"], body["spec"]["restartPolicy"] = [done, {**container, "resources": size}], "Never"
    larger = {"requests": {"cpu": "60m", "memory": "17Mi"}}
    async with Cluster(tmp_path) as cluster:
        node = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"})
        await cluster.client.create(POD, body)
        await node.pass_time(2)
        patch = [{"name": name, "resources": larger} for name in ("done", "c")]
        await cluster.resize("p", {"spec": {"containers": patch}})
        await node.quiet()
        status = (await cluster.pod("p"))["status"]
        assert [container_status["resources"] for container_status in status["containerStatuses"]] == [larger, larger]
        assert status["allocatedResources"] == {"cpu": "120m", "memory": "34Mi"}
        assert status["resources"]["requests"] == status["allocatedResources"]


async def test_a_pod_cgroup_that_cannot_be_put_right_is_a_resize_in_progress_until_it_is(tmp_path: Path) -> None:
    """The pod's cgroup was changed by hand while the agent was stopped; no container's size differs."""
    body = pod("p", "100m")
    body["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "200m"}
    async with Cluster(tmp_path) as cluster:
        node = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"})
        uid = (await cluster.client.create(POD, body))["metadata"]["uid"]
        await node.quiet()
        await node.stop()
        node.machine.pods[uid].limits = Limits(102, 90_000, None)

        def refuse(when: str, operation: str, subject: str, argument: Any) -> None:
            if when == "before" and operation == "update_pod":
                raise RuntimeFailure("the kernel says no")

        node.machine.hooks.append(refuse)
        await node.restart()
        (failing,) = [
            condition for condition in (await cluster.pod("p"))["status"]["conditions"] if "Resize" in condition["type"]
        ]
        assert failing["reason"] == "Error" and failing["message"].endswith("the kernel says no")
        assert "ResizeCompleted" not in [event["reason"] for event in await cluster.events()]
        node.machine.hooks.remove(refuse)
        await node.pass_time(10)
        assert node.machine.pods[uid].limits.cpu_quota_us == 20_000
        assert not [
            condition for condition in (await cluster.pod("p"))["status"]["conditions"] if "Resize" in condition["type"]
        ]
        assert node.agent.metrics.registry.get_sample_value("kubelet_pod_in_progress_resizes") == 0
