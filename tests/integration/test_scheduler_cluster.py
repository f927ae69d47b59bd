"""The scheduler against podfit's API server in the same process: the effects of its decisions on users and
controllers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.nodes import Cluster

from podfit.api.objects import Object
from podfit.api.registry.kinds import NODE, POD, kind_named
from podfit.api.status import ApiError
from podfit.client.rest import STRATEGIC
from podfit.kit.clock import FakeClock, rfc3339
from podfit.scheduler import Scheduler, SchedulerConfig

PDB = kind_named("PodDisruptionBudget")


class Bench:
    def __init__(self, cluster: Cluster, scheduler: Scheduler) -> None:
        self.cluster, self.client, self.scheduler = cluster, cluster.client, scheduler

    async def node(self, name: str, cpu: str = "2", **spec: Any) -> None:
        labels = {"kubernetes.io/hostname": name}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec}
        await self.client.create(NODE, node)
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110", "ephemeral-storage": "10Gi"}
        await self.client.patch(NODE, "", name, {"status": {"capacity": amounts, "allocatable": amounts}}, "status")
        # Admission taints every new node as not ready; its agent would report, and the controller remove the taint.
        await self.client.patch(NODE, "", name, {"spec": {"taints": spec.get("taints")}})

    async def pod(self, name: str, cpu: str = "100m", labels: Object | None = None, **spec: Any) -> Object:
        containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
            "spec": {"containers": containers, **spec},
        }
        return await self.client.create(POD, body)

    async def priority(self, name: str, value: int, **more: Any) -> None:
        body = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            **more,
        }
        await self.client.create(kind_named("PriorityClass"), body)

    async def run(self, name: str, cpu: str) -> None:
        """Reports the pod as its node would: running, with these resources."""
        resources = {"requests": {"cpu": cpu}}
        status = {"name": "c", "ready": True, "restartCount": 0, "image": "i", "imageID": "i"}
        status |= {"resources": resources, "allocatedResources": {"cpu": cpu}, "state": {"running": {}}}
        ready = [{"type": "Ready", "status": "True"}]
        patch = {"status": {"phase": "Running", "conditions": ready, "containerStatuses": [status]}}
        await self.client.patch(POD, "default", name, patch, "status", STRATEGIC)

    async def resize(self, name: str, cpu: str) -> None:
        patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
        await self.client.patch(POD, "default", name, patch, "resize", STRATEGIC)

    async def until(self, done: Callable[[Object], bool], name: str) -> Object:
        async with asyncio.timeout(20):
            while True:
                pod = await self.client.find(POD, "default", name)
                if pod is not None and done(pod):
                    return pod
                await asyncio.sleep(0.005)

    async def bound(self, name: str) -> str:
        pod = await self.until(lambda pod: bool(pod["spec"].get("nodeName")), name)
        return str(pod["spec"]["nodeName"])

    async def refused(self, name: str) -> str:
        pod = await self.until(lambda pod: _scheduled(pod).get("status") == "False", name)
        row = _scheduled(pod)
        assert row["reason"] == "Unschedulable"
        return str(row["message"])

    async def gone(self, name: str) -> None:
        async with asyncio.timeout(20):
            while await self.client.find(POD, "default", name) is not None:
                await asyncio.sleep(0.005)

    async def reported(self, reason: str) -> list[Object]:
        await self.scheduler.idle()
        return [event for event in await self.cluster.events() if event["reason"] == reason]


def _scheduled(pod: Object) -> Object:
    rows = (pod.get("status") or {}).get("conditions") or []
    return next((row for row in rows if row["type"] == "PodScheduled"), {})


@asynccontextmanager
async def running(folder: Path, clock: FakeClock | None = None, **config: Any) -> AsyncIterator[Bench]:
    async with Cluster(folder) as cluster:
        scheduler = Scheduler(cluster.client, SchedulerConfig(seed=1, **config), clock)
        task = asyncio.create_task(scheduler.run())
        await asyncio.wait_for(scheduler.ready.wait(), 10)
        try:
            yield Bench(cluster, scheduler)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with running(tmp_path) as found:
        yield found


async def test_a_pod_gets_a_node_and_an_event_says_which(bench: Bench) -> None:
    await bench.node("n1")
    await bench.pod("p")
    assert await bench.bound("p") == "n1"
    (event,) = await bench.reported("Scheduled")
    assert event["message"] == "Successfully assigned default/p to n1"
    assert (event["action"], event["reportingComponent"]) == ("Binding", "default-scheduler")
    assert event["reportingInstance"].startswith("default-scheduler-") and event["source"] == {}
    assert event["eventTime"] and "count" not in event and event["firstTimestamp"] is event["lastTimestamp"] is None


async def test_without_nodes_kubernetes_words_are_used(bench: Bench) -> None:
    await bench.pod("p")
    assert await bench.refused("p") == "no nodes available to schedule pods"
    await bench.node("n1")
    assert await bench.bound("p") == "n1"


async def test_a_refusal_counts_nodes_by_reason(bench: Bench) -> None:
    await bench.node("n1", cpu="2")
    await bench.node("n2", unschedulable=True)
    await bench.node("n3", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    await bench.pod("filler", "1500m")
    assert await bench.bound("filler") == "n1"
    await bench.pod("p", "1")
    assert await bench.refused("p") == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), "
        "1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: "
        "1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
    )
    (event,) = await bench.reported("FailedScheduling")
    assert event["type"] == "Warning"


async def test_room_freed_by_a_resize_wakes_the_waiting_pod(bench: Bench) -> None:
    await bench.node("n1", cpu="2")
    await bench.pod("p1", "1500m")
    await bench.bound("p1")
    await bench.run("p1", "1500m")
    await bench.pod("q", "800m")
    await bench.refused("q")
    await bench.resize("p1", "1")
    # The desired size fell, but the node still holds the old allocation: nothing is free yet.
    await bench.scheduler.idle()
    assert not (await bench.cluster.pod("q"))["spec"].get("nodeName")
    await bench.run("p1", "1")
    assert await bench.bound("q") == "n1"


async def test_a_deferred_resize_reserves_what_it_requests(bench: Bench) -> None:
    await bench.node("n1", cpu="2")
    await bench.pod("p1", "100m")
    await bench.bound("p1")
    await bench.run("p1", "100m")
    await bench.resize("p1", "1900m")
    await bench.scheduler.idle()
    await bench.pod("q", "300m")
    assert "1 Insufficient cpu" in await bench.refused("q")
    await bench.resize("p1", "100m")
    assert await bench.bound("q") == "n1"


async def test_a_waiting_pod_that_shrinks_itself_is_scheduled(bench: Bench) -> None:
    await bench.node("n1", cpu="1")
    await bench.pod("q", "2")
    await bench.refused("q")
    await bench.resize("q", "500m")
    assert await bench.bound("q") == "n1"


async def test_an_event_wakes_only_as_many_pods_as_it_helps(bench: Bench) -> None:
    await bench.node("n1", cpu="1")
    await bench.pod("big", "1")
    await bench.bound("big")
    for number in range(5):
        await bench.pod(f"q{number}", "400m")
        await bench.refused(f"q{number}")
    await bench.scheduler.idle()
    tried = _attempts(bench)
    await bench.client.delete(POD, "default", "big", {"gracePeriodSeconds": 0})
    assert {await bench.bound("q0"), await bench.bound("q1")} == {"n1"}
    await bench.scheduler.idle()
    assert _attempts(bench) - tried == 2
    assert not (await bench.cluster.pod("q2"))["spec"].get("nodeName")


async def test_of_several_kinds_that_would_fit_only_the_one_that_gets_the_room_is_tried(bench: Bench) -> None:
    await bench.node("n1", cpu="1")
    await bench.pod("big", "1")
    await bench.bound("big")
    for number in (6, 7, 8):
        await bench.pod(f"q{number}", f"{number}00m")
        await bench.refused(f"q{number}")
    await bench.scheduler.idle()
    tried = _attempts(bench)
    await bench.client.delete(POD, "default", "big", {"gracePeriodSeconds": 0})
    assert await bench.bound("q6") == "n1"
    await bench.scheduler.idle()
    assert _attempts(bench) - tried == 1


def _attempts(bench: Bench) -> float:
    return sum(
        sample.value
        for metric in bench.scheduler.metrics.attempts.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    )


async def test_a_gated_pod_waits_for_its_gates(bench: Bench) -> None:
    await bench.node("n1")
    await bench.pod("p", schedulingGates=[{"name": "example.com/wait"}])
    await bench.pod("other")
    await bench.bound("other")
    assert not (await bench.cluster.pod("p"))["spec"].get("nodeName")
    await bench.client.patch(POD, "default", "p", {"spec": {"schedulingGates": None}})
    assert await bench.bound("p") == "n1"


async def test_pods_of_other_schedulers_are_not_changed(bench: Bench) -> None:
    await bench.node("n1")
    await bench.pod("theirs", schedulerName="someone-else")
    await bench.pod("ours")
    await bench.bound("ours")
    await bench.scheduler.idle()
    assert not (await bench.cluster.pod("theirs"))["spec"].get("nodeName")


async def test_an_important_pod_takes_the_place_of_the_least_important(bench: Bench) -> None:
    await bench.priority("high", 1000)
    await bench.priority("middle", 500)
    await bench.node("n1", cpu="2")
    await bench.pod("low", "900m")
    await bench.pod("mid", "900m", priorityClassName="middle")
    for name in ("low", "mid"):
        await bench.bound(name)
        await bench.run(name, "900m")
    await bench.pod("vip", "900m", priorityClassName="high")
    pod = await bench.until(lambda pod: bool((pod.get("status") or {}).get("nominatedNodeName")), "vip")
    assert pod["status"]["nominatedNodeName"] == "n1"
    # The node's agent would terminate the victim; here the test does.
    victim = await bench.until(lambda pod: bool(pod["metadata"].get("deletionTimestamp")), "low")
    target = next(row for row in victim["status"]["conditions"] if row["type"] == "DisruptionTarget")
    assert (target["reason"], target["status"]) == ("PreemptionByScheduler", "True")
    assert target["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
    await bench.client.delete(POD, "default", "low", {"gracePeriodSeconds": 0})
    assert await bench.bound("vip") == "n1"
    (event,) = await bench.reported("Preempted")
    assert event["message"] == f"Preempted by pod {pod['metadata']['uid']} on node n1"
    assert (event["action"], event["related"]["name"]) == ("Preempting", "vip")
    assert (await bench.cluster.pod("mid"))["metadata"].get("deletionTimestamp") is None


async def test_each_of_two_equals_gets_the_room_that_was_made_for_it(bench: Bench) -> None:
    await bench.priority("high", 1000)
    for number in (1, 2):
        await bench.node(f"n{number}", cpu="1")
        await bench.pod(f"low{number}", "800m", nodeSelector={"kubernetes.io/hostname": f"n{number}"})
        await bench.bound(f"low{number}")
        await bench.run(f"low{number}", "800m")
    promised = {}
    for name in ("vip1", "vip2"):
        await bench.pod(name, "800m", priorityClassName="high")
        pod = await bench.until(lambda pod: bool((pod.get("status") or {}).get("nominatedNodeName")), name)
        promised[name] = pod["status"]["nominatedNodeName"]
    assert set(promised.values()) == {"n1", "n2"}
    # The second pod's victim terminates first: the capacity is the second pod's, though the first waits longer.
    await bench.client.delete(POD, "default", f"low{promised['vip2'][1]}", {"gracePeriodSeconds": 0})
    assert await bench.bound("vip2") == promised["vip2"]
    await bench.client.delete(POD, "default", f"low{promised['vip1'][1]}", {"gracePeriodSeconds": 0})
    assert await bench.bound("vip1") == promised["vip1"]


async def test_a_pod_that_must_not_preempt_reports_it(bench: Bench) -> None:
    await bench.priority("polite", 1000, preemptionPolicy="Never")
    await bench.node("n1", cpu="1")
    await bench.pod("low", "800m")
    await bench.bound("low")
    await bench.pod("vip", "800m", priorityClassName="polite")
    message = await bench.refused("vip")
    assert message.endswith("no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.")
    assert (await bench.cluster.pod("low"))["metadata"].get("deletionTimestamp") is None


async def _budget(bench: Bench, allowed: int) -> None:
    spec = {"selector": {"matchLabels": {"app": "kept"}}, "minAvailable": 1}
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"}}
    made = await bench.client.create(PDB, {**body, "spec": spec})
    status = {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    status["observedGeneration"] = made["metadata"].get("generation", 1)
    await bench.client.patch(PDB, "default", "b", {"status": status}, "status")


async def test_preemption_prefers_nodes_whose_budgets_stay_whole(bench: Bench) -> None:
    await bench.priority("high", 1000)
    await _budget(bench, 0)
    await bench.node("n1", cpu="1")
    await bench.pod("kept", "800m", labels={"app": "kept"})
    assert await bench.bound("kept") == "n1"
    await bench.node("n2", cpu="1")
    await bench.pod("free", "800m", labels={"app": "free"})
    assert await bench.bound("free") == "n2"
    await bench.pod("vip", "800m", priorityClassName="high")
    pod = await bench.until(lambda pod: bool((pod.get("status") or {}).get("nominatedNodeName")), "vip")
    assert pod["status"]["nominatedNodeName"] == "n2"


async def test_a_refused_binding_is_withdrawn_and_tried_again(tmp_path: Path) -> None:
    clock = FakeClock()
    async with running(tmp_path, clock) as bench:
        await bench.node("n1", cpu="1")
        real, failed = bench.client.create, 0

        async def flaky(
            kind: Any, obj: Object, namespace: str = "", name: str = "", subresource: str = "", **q: str
        ) -> Object:
            nonlocal failed
            if subresource == "binding" and not failed:
                failed += 1
                raise ApiError(500, "InternalError", "the store is slow today")
            return await real(kind, obj, namespace, name, subresource, **q)

        bench.client.create = flaky  # type: ignore[method-assign]
        await bench.pod("p", "800m")
        async with asyncio.timeout(20):
            while not (await bench.cluster.pod("p"))["spec"].get("nodeName"):
                await clock.advance(0.5)
        assert failed == 1
        assert int(bench.scheduler.board.snapshot.requested[0, 0]) == 800


async def _deferred(bench: Bench, clock: FakeClock) -> None:
    """A node on which an important pod's resize is deferred because of a pod with lower priority."""
    await bench.priority("high", 1000)
    await bench.node("n1", cpu="2")
    await bench.pod("vip", "500m", priorityClassName="high")
    await bench.pod("low", "1200m", labels={"app": "kept"})
    for name, cpu in (("vip", "500m"), ("low", "1200m")):
        await bench.bound(name)
        await bench.run(name, cpu)
    await bench.resize("vip", "1500m")
    row = {
        "type": "PodResizePending",
        "status": "True",
        "reason": "Deferred",
        "message": "Node didn't have enough resource: cpu",
        "lastTransitionTime": rfc3339(clock.now()),
    }
    await bench.client.patch(POD, "default", "vip", {"status": {"conditions": [row]}}, "status", STRATEGIC)
    await bench.scheduler.idle()


async def test_a_deferred_resize_waits_by_default(tmp_path: Path) -> None:
    clock = FakeClock()
    async with running(tmp_path, clock) as bench:
        await _deferred(bench, clock)
        await clock.advance(3600)
        assert (await bench.cluster.pod("low"))["metadata"].get("deletionTimestamp") is None


async def test_after_the_deadline_a_deferred_resize_may_preempt(tmp_path: Path) -> None:
    clock = FakeClock()
    async with running(tmp_path, clock, deferred_resize_policy="preempt", deferred_resize_deadline_s=30) as bench:
        await _deferred(bench, clock)
        await clock.advance(20)
        assert (await bench.cluster.pod("low"))["metadata"].get("deletionTimestamp") is None
        await clock.advance(11)
        await bench.until(lambda pod: bool(pod["metadata"].get("deletionTimestamp")), "low")
        (event,) = await bench.reported("Preempted")
        assert "deferred resize of pod default/vip on node n1" in event["message"]
        assert (await bench.reported("ResizePreempting"))[0]["involvedObject"]["name"] == "vip"


async def test_a_budget_keeps_a_deferred_resize_waiting(tmp_path: Path) -> None:
    clock = FakeClock()
    async with running(tmp_path, clock, deferred_resize_policy="preempt", deferred_resize_deadline_s=30) as bench:
        await _budget(bench, 0)
        await _deferred(bench, clock)
        await clock.advance(40)
        (event, *_) = await bench.reported("ResizePreemptionFailed")
        assert "700m cpu missing" in event["message"]
        assert (await bench.cluster.pod("low"))["metadata"].get("deletionTimestamp") is None


async def test_a_restarted_scheduler_continues_from_the_state_of_the_cluster(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        scheduler = Scheduler(cluster.client, SchedulerConfig(seed=1))
        bench = Bench(cluster, scheduler)
        await bench.node("n1", cpu="1")
        for name in ("first", "second"):
            task = asyncio.create_task(scheduler.run())
            await asyncio.wait_for(scheduler.ready.wait(), 10)
            await bench.pod(name, "500m")
            assert await bench.bound(name) == "n1"
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await bench.pod("third", "500m")
        task = asyncio.create_task(scheduler.run())
        assert "1 Insufficient cpu" in await bench.refused("third")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_metrics_carry_kube_schedulers_names(bench: Bench) -> None:
    await bench.node("n1", cpu="1")
    await bench.pod("fits", "500m")
    await bench.bound("fits")
    await bench.pod("waits", "900m")
    await bench.refused("waits")
    await bench.scheduler.idle()
    value = bench.scheduler.metrics.registry.get_sample_value
    profile = {"profile": "default-scheduler"}
    assert value("scheduler_schedule_attempts_total", {"result": "scheduled", **profile}) == 1
    assert value("scheduler_schedule_attempts_total", {"result": "unschedulable", **profile}) == 1
    assert value("scheduler_pending_pods", {"queue": "unschedulable"}) == 1
    assert value("scheduler_unschedulable_pods", {"plugin": "NodeResourcesFit", **profile}) == 1
    assert value("scheduler_cache_size", {"type": "nodes"}) == 1


async def test_many_pods_are_bound_once_each(bench: Bench) -> None:
    for number in range(4):
        await bench.node(f"n{number}", cpu="10")
    await asyncio.gather(*(bench.pod(f"p{number}", "100m") for number in range(200)))
    async with asyncio.timeout(30):
        while True:
            listed = (await bench.client.list(POD, "default"))["items"]
            if all(pod["spec"].get("nodeName") for pod in listed):
                break
            await asyncio.sleep(0.01)
    counts = [sum(pod["spec"]["nodeName"] == f"n{number}" for pod in listed) for number in range(4)]
    assert sum(counts) == 200
    assert max(counts) - min(counts) <= 2


async def test_a_pod_waits_for_its_claim_and_is_scheduled_once_it_exists(bench: Bench) -> None:
    await bench.node("n1")
    await bench.pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    reported = await bench.refused("p")
    assert reported.startswith('0/1 nodes are available: persistentvolumeclaim "data" not found. ')
    assert reported.endswith("preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": "data", "namespace": "default"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}
    await bench.client.create(kind_named("PersistentVolumeClaim"), claim)
    assert await bench.bound("p") == "n1"


async def test_pods_of_a_set_are_spread_though_they_do_not_request_it(bench: Bench) -> None:
    # By their free capacity alone all pods would go to the first node.
    for name, cpu in (("n1", "64"), ("n2", "2"), ("n3", "2")):
        await bench.node(name, cpu)
    pod = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": pod}
    meta = {"name": "web", "namespace": "default"}
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec}
    made = await bench.client.create(kind_named("ReplicaSet"), body)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": made["metadata"]["uid"]}
    nodes = []
    for number in range(3):
        name = f"web-{number}"
        labelled = {"name": name, "namespace": "default", "labels": {"app": "web"}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": labelled, "spec": pod["spec"]}
        labelled["ownerReferences"] = [{**owner, "controller": True}]
        await bench.client.create(POD, body)
        nodes.append(await bench.bound(name))
    assert sorted(nodes) == ["n1", "n2", "n3"]
