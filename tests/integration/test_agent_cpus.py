"""The static CPU policy on whole nodes: which CPUs containers run on while pods are created, resized and deleted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.agent.cpus.checkpoint import UnusableState
from podfit.agent.cpus.decide.sets import Cpus, parse, text
from podfit.agent.cpus.decide.topology import regular
from podfit.agent.cpus.placement import StaticPolicy
from podfit.agent.cpus.reservation import BadReservation
from podfit.agent.decide.resize.allocate import NodePolicy
from podfit.agent.runtimes.values import RUNNING
from podfit.api.registry.kinds import NODE, POD

STATIC = NodePolicy(cpu_manager="static")
RESIZABLE = NodePolicy(cpu_manager="static", exclusive_cpus_resize=True)
EIGHT = {"capacity": {"cpu": "8", "memory": "16Gi"}, "reserved": {"cpu": "1"}, "cpu_topology": regular(1, 1, 4, 2)}
"""Four cores of two threads: 0 and 4 are one core, 1 and 5 the next. CPU 0 is reserved."""


def container(name: str, cpu: str, memory: str = "64Mi", **more: Any) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": memory}
    resources = {"requests": amounts, "limits": amounts}
    return {"name": name, "image": "busybox:1", "command": ["sleep", "1d"], "resources": resources, **more}


def pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    spec = {
        "nodeName": "node1",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "containers": list(containers),
        **spec,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def burstable(name: str) -> dict[str, Any]:
    return pod(name, {**container("c", "100m"), "resources": {"requests": {"cpu": "100m"}}})


def resources(name: str, cpu: str) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "64Mi"}
    return {"name": name, "resources": {"requests": amounts, "limits": amounts}}


def asking(**cpus: str) -> dict[str, Any]:
    return {"spec": {"containers": [resources(name, cpu) for name, cpu in cpus.items()]}}


class Machine:
    """The cpusets that the node's kernel would have."""

    def __init__(self, cluster: Cluster, node: TestNode) -> None:
        self.cluster, self.node = cluster, node
        self.overlaps: list[str] = []
        node.machine.hooks.append(lambda when, what, who, how: self._check(f"{when} {what}"))

    def running(self) -> dict[tuple[str, str], Cpus]:
        return {
            (candidate.config.name, item.config.name): parse(item.limits.cpuset_cpus)
            for candidate in self.node.machine.pods.values()
            for item in candidate.containers.values()
            if item.state == RUNNING
        }

    def _check(self, moment: str) -> None:
        cpus, policy = self.running(), self.node.agent.cpus
        for (owner, name), mine in cpus.items() if isinstance(policy, StaticPolicy) else ():
            uid = next(uid for uid, item in self.node.machine.pods.items() if item.config.name == owner)
            if mine != policy.cpus.of(uid).get(name):
                continue
            for other, theirs in cpus.items():
                if other != (owner, name) and mine & theirs:
                    self.overlaps.append(f"{moment}: {owner}/{name} and {other} share {text(mine & theirs)}")

    async def cpus(self, name: str, container: str = "c") -> str:
        return text(self.running()[name, container])

    async def create(self, *pods: dict[str, Any]) -> None:
        for candidate in pods:
            await self.cluster.client.create(POD, candidate)
            await self.node.quiet()

    async def delete(self, name: str) -> None:
        await self.cluster.client.delete(POD, "default", name)
        await self.node.pass_time(3)

    async def resize(self, name: str, **cpus: str) -> None:
        await self.cluster.resize(name, asking(**cpus))
        await self.node.pass_time(2)

    def checkpoint(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.node.config.data_dir / "cpu_manager_state").read_text())
        return found


async def machine(cluster: Cluster, policy: NodePolicy = STATIC, **config: Any) -> Machine:
    return Machine(cluster, await cluster.node(policy=policy, **{**EIGHT, **config}))


async def test_whole_cpus_of_a_guaranteed_container_are_its_own_and_the_rest_is_shared(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster)
        await found.create(burstable("shared"), pod("own", container("c", "2")), pod("part", container("c", "1500m")))
        await found.node.pass_time(1)
        assert await found.cpus("own") == "1,5"
        assert await found.cpus("shared") == await found.cpus("part") == "0,2-4,6-7"
        assert found.checkpoint()["defaultCpuSet"] == "0,2-4,6-7"
        assert not found.overlaps


async def test_cpus_go_back_to_the_shared_pool_when_their_pod_ends(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster)
        await found.create(burstable("shared"), pod("a", container("c", "2")), pod("b", container("c", "3")))
        await found.delete("a")
        assert await found.cpus("shared") == "0-1,3,5,7"
        await found.delete("b")
        assert await found.cpus("shared") == "0-7"
        assert "entries" not in found.checkpoint()
        assert not found.overlaps


async def test_init_containers_use_the_cpus_of_those_that_start_later_but_not_of_a_sidecar(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster)
        inits = [
            container("side", "1", restartPolicy="Always"),
            {**container("first", "2"), "command": ["true"]},
        ]
        await found.create(pod("p", container("c", "2"), container("d", "1"), initContainers=inits))
        await found.node.pass_time(30)
        entries = found.checkpoint()["entries"]
        cpus = {name: parse(listed) for name, listed in next(iter(entries.values())).items()}
        assert {name: len(item) for name, item in cpus.items()} == {"side": 1, "first": 2, "c": 2, "d": 1}
        assert len(cpus["side"] | cpus["c"] | cpus["d"]) == 4
        assert cpus["first"] <= cpus["c"] | cpus["d"]
        assert await found.cpus("p", "c") == text(cpus["c"])


async def test_a_restarted_container_gets_the_same_cpus(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster)
        await found.create(pod("p", {**container("c", "2"), "command": ["sleep", "30"]}))
        before = await found.cpus("p")
        await found.node.pass_time(45)
        assert (await cluster.pod("p"))["status"]["containerStatuses"][0]["restartCount"] > 0
        assert await found.cpus("p") == before


async def test_a_pod_whose_cpus_do_not_exist_is_rejected_as_by_a_kubelet(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster, capacity={"cpu": "16", "memory": "16Gi"})
        await found.create(pod("p", container("c", "9")))
        status = (await cluster.pod("p"))["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
        assert status["message"] == (
            "Pod was rejected: Allocate failed due to not enough cpus available to satisfy request: "
            "requested=9, available=7, which is unexpected"
        )


async def test_a_pod_waits_for_cpus_of_one_that_is_going(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster)
        slow = pod("slow", {**container("c", "6"), "command": ["sh", "-c", "trap '' TERM; sleep 1d"]})
        await found.create(slow)
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        await cluster.client.delete(POD, "default", "slow", options)
        await cluster.client.create(POD, pod("next", container("c", "6")))
        await found.node.pass_time(3)
        assert (await cluster.pod("next"))["status"]["phase"] == "Running"
        assert not found.overlaps


# --- resizes


async def test_cpus_of_a_guaranteed_pod_cannot_be_resized(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster)
        await found.create(pod("p", container("c", "2")))
        await found.resize("p", c="3")
        conditions = {condition["type"]: condition for condition in (await cluster.pod("p"))["status"]["conditions"]}
        assert conditions["PodResizePending"]["reason"] == "Infeasible"
        assert conditions["PodResizePending"]["message"] == (
            'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
        )
        assert await found.cpus("p") == "1,5"


async def test_with_the_gate_a_resize_keeps_cpus_and_adds_the_nearest(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster, RESIZABLE)
        await found.create(burstable("shared"), pod("p", container("c", "1")))
        assert await found.cpus("p") == "4"
        await found.resize("p", c="3")
        assert await found.cpus("p") == "1,4-5"
        assert await found.cpus("shared") == "0,2-3,6-7"
        await found.resize("p", c="1")
        assert await found.cpus("p") == "4"
        assert await found.cpus("shared") == "0-3,5-7"
        status = (await cluster.pod("p"))["status"]
        assert not [condition for condition in status["conditions"] if condition["type"].startswith("PodResize")]
        assert status["containerStatuses"][0]["restartCount"] == 0
        assert not found.overlaps


async def test_containers_of_a_pod_can_exchange_cpus(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster, RESIZABLE)
        await found.create(pod("p", container("a", "5"), container("b", "2")))
        await found.resize("p", a="2", b="5")
        cpus = found.running()
        assert (len(cpus["p", "a"]), len(cpus["p", "b"])) == (2, 5)
        assert not cpus["p", "a"] & cpus["p", "b"]
        assert not found.overlaps


async def test_a_resize_to_part_of_a_cpu_is_rejected_with_an_event(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster, RESIZABLE)
        await found.create(pod("p", container("c", "2")))
        await found.resize("p", c="2500m")
        why = 'container \\"c\\" requests 2500m, which is not a whole number of CPUs'
        await found.node.agent.idle()
        events = [event for event in await cluster.events() if event["reason"] == "ResizeInfeasible"]
        assert [why in event["message"] for event in events] == [True]
        assert await found.cpus("p") == "1,5"


async def test_a_container_of_the_shared_pool_gets_cpus_of_its_own_by_a_resize(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster, RESIZABLE)
        await found.create(burstable("shared"), pod("p", container("c", "1500m")))
        await found.resize("p", c="2")
        assert await found.cpus("p") == "1,5"
        assert await found.cpus("shared") == "0,2-4,6-7"
        assert not found.overlaps


async def test_other_pods_keep_their_cpus_when_one_is_resized(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster, RESIZABLE)
        await found.create(pod("a", container("c", "2")), pod("b", container("c", "2")))
        before = await found.cpus("b")
        await found.resize("a", c="4")
        assert await found.cpus("b") == before


async def test_a_resize_waits_for_cpus_that_another_pod_gives_back(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster, RESIZABLE)
        await found.create(pod("a", container("c", "5")), pod("b", container("c", "2")))
        await found.resize("b", c="4")
        conditions = [
            condition["reason"]
            for condition in (await cluster.pod("b"))["status"]["conditions"]
            if "reason" in condition
        ]
        assert "Deferred" in conditions
        await found.resize("a", c="3")
        cpus = found.running()
        assert (len(cpus["a", "c"]), len(cpus["b", "c"])) == (3, 4)
        assert not found.overlaps


# --- resizes in the designs of 2020 and 2021


async def in_dialect(cluster: Cluster, dialect: str) -> tuple[Machine, Asker]:
    """A pod with two exclusive CPUs in a namespace of that dialect, which supports them without the gate."""
    await cluster.namespace("old", dialect)
    found, ask = await machine(cluster), Asker(cluster.server)
    await found.create(burstable("shared"))
    body = pod("p", container("c", "2"))
    body["metadata"]["namespace"] = "old"
    code, answer = await ask("POST", "/api/v1/namespaces/old/pods", body)
    assert code == 201, answer
    await found.node.pass_time(2)
    return found, ask


async def patch(found: Machine, ask: Asker, cpu: str) -> None:
    body = asking(c=cpu)
    code, answer = await ask("PATCH", "/api/v1/namespaces/old/pods/p", body, "application/strategic-merge-patch+json")
    assert code == 200, answer
    await found.node.pass_time(3)


@pytest.mark.parametrize("dialect", ["2020", "2021"])
async def test_older_designs_grow_and_shrink_whole_cpus_in_place(tmp_path: Path, dialect: str) -> None:
    async with Cluster(tmp_path) as cluster:
        found, ask = await in_dialect(cluster, dialect)
        await patch(found, ask, "4")
        assert await found.cpus("p") == "1-2,5-6"
        assert await found.cpus("shared") == "0,3-4,7"
        await patch(found, ask, "1")
        assert parse(await found.cpus("p")) < parse("1-2,5-6")
        code, shown = await ask("GET", "/api/v1/namespaces/old/pods/p")
        status = shown["status"]["containerStatuses"][0]
        assert (code, status["restartCount"], status["resources"]["limits"]["cpu"]) == (200, 0, "1")
        assert not found.overlaps


@pytest.mark.parametrize("dialect", ["2020", "2021"])
async def test_older_designs_reject_parts_of_a_cpu_with_an_event(tmp_path: Path, dialect: str) -> None:
    async with Cluster(tmp_path) as cluster:
        found, ask = await in_dialect(cluster, dialect)
        await patch(found, ask, "2500m")
        await found.node.agent.idle()
        events = [event["message"] for event in await cluster.events("old") if event["type"] == "Warning"]
        assert len(events) == 1 and "requests 2500m, which is not a whole number of CPUs" in events[0]
        assert await found.cpus("p") == "1,5"


# --- the agent comes back


async def test_a_new_agent_leaves_every_container_where_it_runs(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster)
        await found.create(burstable("shared"), pod("a", container("c", "2")), pod("b", container("c", "3")))
        await found.delete("a")
        before = found.running()
        await found.node.restart()
        await found.node.pass_time(2)
        assert found.running() == before


async def test_a_lost_checkpoint_is_rebuilt_from_where_containers_run(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster)
        await found.create(burstable("shared"), pod("a", container("c", "2")), pod("b", container("c", "3")))
        await found.delete("a")
        before, saved = found.running(), found.checkpoint()
        await found.node.stop()
        (found.node.config.data_dir / "cpu_manager_state").unlink()
        await found.node.restart()
        await found.node.pass_time(2)
        assert found.running() == before
        assert found.checkpoint() == saved


async def test_an_agent_does_not_start_with_a_corrupt_checkpoint_and_pods_run_on(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster)
        await found.create(pod("a", container("c", "2")))
        before = found.running()
        await found.node.stop()
        (found.node.config.data_dir / "cpu_manager_state").write_text('{"policyName":"static"')
        with pytest.raises(UnusableState, match="please drain this node and delete the CPU manager checkpoint file"):
            await found.node.restart()
        assert found.running() == before
        found.node.up = False


async def test_the_cpus_of_a_pod_that_was_deleted_meanwhile_are_free_again(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster)
        await found.create(burstable("shared"), pod("a", container("c", "6")))
        await found.node.stop()
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        await cluster.client.delete(POD, "default", "a", options)
        await cluster.client.create(POD, pod("b", container("c", "6")))
        await found.node.restart()
        await found.node.pass_time(3)
        assert (await cluster.pod("b"))["status"]["phase"] == "Running"
        assert len(parse(await found.cpus("b"))) == 6
        assert not found.overlaps


async def test_a_node_whose_policy_was_none_refuses_static_until_its_checkpoint_is_deleted(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        node = await cluster.node(on_disk=True, **EIGHT)
        found = Machine(cluster, node)
        await cluster.client.create(POD, pod("own", container("c", "2")))
        await cluster.client.create(POD, burstable("shared"))
        await node.pass_time(2)
        assert set(found.running().values()) == {frozenset()}
        await node.stop()
        again = await cluster_node_with(cluster, node, STATIC)
        with pytest.raises(
            UnusableState, match='configured policy "static" differs from state checkpoint policy "none"'
        ):
            await again.restart()
        again.up = False
        (node.config.data_dir / "cpu_manager_state").unlink()
        await again.restart()
        await again.pass_time(3)
        found.node = again
        assert (await found.cpus("own"), await found.cpus("shared")) == ("1,5", "0,2-4,6-7")


async def cluster_node_with(cluster: Cluster, node: TestNode, policy: NodePolicy) -> TestNode:
    """The same machine and disk, configured with another policy."""
    again = TestNode(cluster, node.name, {"policy": policy, "on_disk": True, **EIGHT})
    again.machine = node.machine
    cluster.nodes.append(again)
    return again


async def test_without_the_policy_containers_leave_the_cpus_they_were_restricted_to(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster, on_disk=True)
        await found.create(burstable("shared"), pod("own", container("c", "2")))
        await found.node.stop()
        (found.node.config.data_dir / "cpu_manager_state").unlink()
        again = await cluster_node_with(cluster, found.node, NodePolicy())
        await again.restart()
        await again.pass_time(2)
        found.node = again
        assert (await found.cpus("own"), await found.cpus("shared")) == ("0-7", "0-7")


# --- configuration and reports


async def test_the_static_policy_needs_a_reservation(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        with pytest.raises(BadReservation, match="greater than zero"):
            await cluster.node(policy=STATIC, capacity={"cpu": "4", "memory": "4Gi"})


async def test_a_part_of_a_cpu_reserves_the_whole_of_it(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster, reserved={"cpu": "600m"}, kube_reserved={"cpu": "600m"})
        await found.create(pod("p", container("c", "6")))
        assert await found.cpus("p") == "1-3,5-7"
        node = await cluster.client.get(NODE, "", "node1")
        assert node["status"]["allocatable"]["cpu"] == "6800m"


async def test_the_listed_cpus_are_reserved(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster, reserved={"cpu": "2"}, reserved_cpus="3,7")
        await found.create(pod("p", container("c", "6")))
        assert await found.cpus("p") == "0-2,4-6"


async def test_the_node_reports_the_policy_as_a_label(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster, on_disk=True)
        node = await cluster.client.get(NODE, "", "node1")
        assert node["metadata"]["labels"]["podfit.dev/cpu-manager-policy"] == "static"
        await found.node.stop()
        (found.node.config.data_dir / "cpu_manager_state").unlink()
        await (await cluster_node_with(cluster, found.node, NodePolicy())).restart()
        node = await cluster.client.get(NODE, "", "node1")
        assert "podfit.dev/cpu-manager-policy" not in node["metadata"]["labels"]


async def test_metrics_show_what_is_assigned(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        found = await machine(cluster, cpu_topology=regular(2, 2, 2, 2))
        await found.create(pod("a", container("c", "2")), pod("b", container("c", "3")))
        counted = found.node.agent.metrics.registry.get_sample_value
        assert counted("kubelet_cpu_manager_pinning_requests_total") == 2
        assert counted("kubelet_cpu_manager_pinning_errors_total") == 0
        assert counted("kubelet_cpu_manager_exclusive_cpu_allocation_count") == 5
        assert counted("kubelet_cpu_manager_shared_pool_size_millicores") == 2000
        per_node = [counted("kubelet_cpu_manager_allocation_per_numa", {"numa_node": node}) for node in ("0", "1")]
        assert sum(item or 0 for item in per_node) == 5
        await found.delete("a")
        assert counted("kubelet_cpu_manager_exclusive_cpu_allocation_count") == 3
        assert counted("kubelet_cpu_manager_shared_pool_size_millicores") == 4000
