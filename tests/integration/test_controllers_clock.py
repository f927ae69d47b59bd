"""Controllers whose work depends on time, on a clock that the test advances."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.expect import all_become, becomes
from tests.support.cluster.nodes import Cluster
from tests.support.cluster.whole import pod_spec, workload

from podfit.api.objects import Object
from podfit.api.registry.kinds import LEASE, NODE, POD, Kind, kind_named
from podfit.client.rest import STRATEGIC, Client
from podfit.compose import make_controller_context
from podfit.controllers.all import run_controllers
from podfit.controllers.nodes.lifecycle import GRACE_S, UNREACHABLE
from podfit.kit.clock import FakeClock, rfc3339, rfc3339_micro
from podfit.kit.concurrency.tasks import Tasks

CRON, JOB, SET, QUOTA, EVENT = map(kind_named, ("CronJob", "Job", "ReplicaSet", "ResourceQuota", "Event"))
STATEFUL = kind_named("StatefulSet")


class Timed:
    """An API server and the chosen controllers on one clock; no nodes run."""

    def __init__(self, client: Client, clock: FakeClock) -> None:
        self.client, self.clock = client, clock
        self.calls: list[tuple[str, str]] = []
        """The controllers' requests to the server: (verb, path)."""

    async def pass_time(self, seconds: float, step: float = 0.25) -> None:
        """Advances the clock in steps, each with enough iterations of the loop for the writes it causes to
        return as events.
        """
        for _ in range(round(seconds / step)):
            await self.clock.advance(step)
            for _ in range(30):
                await asyncio.sleep(0)


Start = Callable[..., AbstractAsyncContextManager[Timed]]


@pytest.fixture
def timed(tmp_path: Path) -> Start:
    @asynccontextmanager
    async def start(*names: str) -> AsyncIterator[Timed]:
        clock = FakeClock(1_800_000_010.0)
        async with Cluster(tmp_path, clock=clock) as cluster:
            one = Timed(cluster.client, clock)
            tasks = Tasks("test")
            world = make_controller_context(_noted(cluster.client, one.calls), clock, b"")
            tasks.start(run_controllers(world, frozenset(names)), "controllers")
            try:
                yield one
            finally:
                await tasks.stop()

    return start


def _noted(client: Client, calls: list[tuple[str, str]]) -> Client:
    class Noting(Client):
        async def raw(self, method: str, path: str, *args: Any, **options: Any) -> Any:
            calls.append((method, path))
            return await super().raw(method, path, *args, **options)

    return Noting(client.transport)


# --- CronJobs


def cron(**spec: Any) -> Object:
    pod = pod_spec(restartPolicy="Never")
    meta = {"name": "tick", "namespace": "default"}
    body = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": body}


async def test_a_due_time_has_exactly_one_job(timed: Start) -> None:
    async with timed("cronjob-controller") as one:
        await one.client.create(CRON, cron())
        await one.pass_time(5)
        assert (await one.client.list(JOB, "default"))["items"] == []
        for minutes in (1, 2):
            await one.pass_time(60)
            jobs = await all_become(one.client, JOB, "default", lambda jobs, n=minutes: len(jobs) >= n)
            assert len(jobs) == minutes
        tick = await becomes(one.client, CRON, "default", "tick", lambda it: len(it["status"].get("active", [])) == 2)
        assert tick is not None and tick["status"]["lastScheduleTime"].endswith(":00Z")


async def test_a_forbidding_cron_job_waits_for_the_job_that_runs(timed: Start) -> None:
    async with timed("cronjob-controller") as one:
        await one.client.create(CRON, cron(concurrencyPolicy="Forbid"))
        await one.pass_time(180)
        assert len((await one.client.list(JOB, "default"))["items"]) == 1


async def test_a_suspended_cron_job_starts_nothing(timed: Start) -> None:
    async with timed("cronjob-controller") as one:
        await one.client.create(CRON, cron(suspend=True))
        await one.pass_time(130)
        assert (await one.client.list(JOB, "default"))["items"] == []


async def said(one: Timed, reason: str) -> list[str]:
    events = (await one.client.list(EVENT, "default"))["items"]
    return [str(event["message"]) for event in events if event["reason"] == reason]


async def test_a_cron_job_that_is_woken_starts_at_the_next_minute(timed: Start) -> None:
    async with timed("cronjob-controller") as one:
        await one.client.create(CRON, cron(timeZone="Europe/Paris", suspend=True))
        await one.pass_time(1)
        await one.client.patch(CRON, "default", "tick", {"spec": {"suspend": False}})
        await one.pass_time(60)
        assert len((await one.client.list(JOB, "default"))["items"]) == 1


async def test_a_due_time_beyond_the_starting_deadline_is_missed(timed: Start) -> None:
    async with timed("cronjob-controller") as one:
        await one.client.create(CRON, cron(suspend=True, startingDeadlineSeconds=10))
        await one.pass_time(80)
        # The minute is half over when the job may start again: too late for its beginning.
        await one.client.patch(CRON, "default", "tick", {"spec": {"suspend": False}})
        await one.pass_time(1)
        assert (await one.client.list(JOB, "default"))["items"] == []
        assert (await said(one, "MissSchedule"))[0].startswith("Missed scheduled time to start a job: ")


async def test_a_job_that_vanished_is_missed_and_one_that_appeared_is_noticed(timed: Start) -> None:
    async with timed("cronjob-controller") as one:
        made = await one.client.create(CRON, cron())
        await one.pass_time(60)
        job = (await one.client.list(JOB, "default"))["items"][0]
        assert not await said(one, "UnexpectedJob")
        await one.client.delete(JOB, "default", job["metadata"]["name"], {"propagationPolicy": "Background"})
        await one.pass_time(1)
        assert await said(one, "MissingJob") == [f"Active job went missing: {job['metadata']['name']}"]
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": made["metadata"]["uid"]}
        meta = {"name": "by-hand", "namespace": "default", "ownerReferences": [{**owner, "controller": True}]}
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": meta,
            "spec": cron()["spec"]["jobTemplate"]["spec"],
        }
        await one.client.create(JOB, body)
        await one.pass_time(1)
        assert await said(one, "UnexpectedJob") == ["Saw a job that the controller did not create or forgot: by-hand"]


# --- Jobs


async def test_an_index_above_its_backoff_limit_fails_and_the_others_continue(timed: Start) -> None:
    async with timed("job-controller") as one:
        pod = pod_spec(restartPolicy="Never")
        spec = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 1}
        meta = {"name": "j", "namespace": "default"}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {**spec, "template": {"spec": pod}}}
        await one.client.create(JOB, body)

        async def end(index: int, failures: str, phase: str) -> None:
            def running(pods: list[Object]) -> list[Object]:
                return [
                    pod
                    for pod in pods
                    if pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == str(index)
                    and pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == failures
                ]

            pods = running(await all_become(one.client, POD, "default", lambda pods: bool(running(pods))))
            name = pods[0]["metadata"]["name"]
            await one.client.patch(POD, "default", name, {"status": {"phase": phase}}, subresource="status")

        await end(0, "0", "Failed")
        await one.pass_time(5)
        assert len((await one.client.list(POD, "default"))["items"]) == 2
        await one.pass_time(10)
        await end(0, "1", "Failed")
        await becomes(one.client, JOB, "default", "j", lambda job: job["status"].get("failedIndexes") == "0")
        await end(1, "0", "Succeeded")
        done = await becomes(one.client, JOB, "default", "j", lambda job: len(job["status"].get("conditions", [])) == 2)
        assert done is not None and {it["reason"] for it in done["status"]["conditions"]} == {"FailedIndexes"}
        assert (done["status"]["failed"], done["status"]["completedIndexes"]) == (2, "1")


async def test_a_pod_deleted_before_it_had_a_node_counts_as_failed(timed: Start) -> None:
    # The Job waits for its pods to terminate, and only the garbage collector reports that this one has.
    async with timed("job-controller", "pod-garbage-collector") as one:
        spec = {"podReplacementPolicy": "Failed", "template": {"spec": pod_spec(node="", restartPolicy="Never")}}
        meta = {"name": "j", "namespace": "default"}
        await one.client.create(JOB, {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
        (pod,) = await all_become(one.client, POD, "default", lambda pods: len(pods) == 1)
        await one.client.delete(POD, "default", pod["metadata"]["name"])
        job = await becomes(one.client, JOB, "default", "j", lambda job: job["status"].get("failed") == 1)
        assert job is not None
        await all_become(one.client, POD, "default", lambda pods: all(it["metadata"]["uid"] != uid(pod) for it in pods))


def uid(obj: Object) -> str:
    return str(obj["metadata"]["uid"])


async def test_a_failure_policy_means_conditions_that_hold_unless_it_says_otherwise(timed: Start) -> None:
    async with timed("job-controller") as one:
        rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}, {"type": "X", "status": "False"}]}
        spec = {"podFailurePolicy": {"rules": [rule]}, "template": {"spec": pod_spec(node="", restartPolicy="Never")}}
        meta = {"name": "j", "namespace": "default"}
        made = await one.client.create(JOB, {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
        (shown,) = made["spec"]["podFailurePolicy"]["rules"]
        assert [row["status"] for row in shown["onPodConditions"]] == ["True", "False"]


async def test_every_container_of_an_indexed_job_has_its_index_in_a_variable(timed: Start) -> None:
    async with timed("job-controller") as one:
        pod = pod_spec(restartPolicy="Never")
        own = {"name": "JOB_COMPLETION_INDEX", "value": "mine"}
        pod["initContainers"] = [{"name": "i", "image": "x"}, {"name": "own", "image": "x", "env": [own]}]
        name = "j" * 52
        spec = {"completionMode": "Indexed", "completions": 1, "template": {"spec": pod}}
        meta = {"name": name, "namespace": "default"}
        await one.client.create(JOB, {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
        (made,) = await all_become(one.client, POD, "default", lambda pods: len(pods) == 1)
        containers = [*made["spec"]["initContainers"], *made["spec"]["containers"]]
        shown = {container["name"]: container["env"] for container in containers}
        path = "metadata.labels['batch.kubernetes.io/job-completion-index']"
        given = [{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}]
        assert shown == {"i": given, "own": [own], "c": given}
        assert made["metadata"]["generateName"] == f"{name}-0-"


# --- StatefulSets


async def test_a_broken_pod_below_holds_no_update_up_and_pods_are_replaced_one_by_one(timed: Start) -> None:
    async with timed("statefulset-controller") as one:
        pod = {**pod_spec(node=""), "schedulerName": "nobody"}
        body = workload("StatefulSet", "db", 3, serviceName="db", podManagementPolicy="Parallel", pod=pod)
        await one.client.create(STATEFUL, body)
        first = {it["metadata"]["name"]: uid(it) for it in await all_become(one.client, POD, "default", three)}

        async def serve(name: str) -> None:
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(one.clock.now())}
            change = {"status": {"phase": "Running", "conditions": [ready]}}
            await one.client.patch(POD, "default", name, change, subresource="status", content_type=STRATEGIC)

        async def replaced() -> set[str]:
            await one.pass_time(2)
            pods = (await one.client.list(POD, "default"))["items"]
            return {it["metadata"]["name"] for it in pods if uid(it) != first[it["metadata"]["name"]]}

        for name in ("db-1", "db-2"):
            await serve(name)
        await one.client.patch(STATEFUL, "default", "db", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
        assert await replaced() == {"db-2"}
        await serve("db-2")
        assert await replaced() == {"db-1", "db-2"}
        await serve("db-1")
        assert await replaced() == {"db-0", "db-1", "db-2"}


def three(pods: list[Object]) -> bool:
    return len(pods) == 3


# --- nodes


async def test_pods_that_are_to_end_on_a_node_out_of_service_are_removed(timed: Start) -> None:
    async with timed("pod-garbage-collector", "taint-eviction-controller") as one:
        await join(one, "n")
        meta = {"name": "p", "namespace": "default"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
        await one.client.create(POD, {**body, "spec": {**pod_spec(node="n"), "terminationGracePeriodSeconds": 30}})
        await one.client.delete(POD, "default", "p")
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
        await one.client.patch(NODE, "", "n", {"spec": {"taints": [taint]}})
        await one.pass_time(1)
        assert await one.client.find(POD, "default", "p") is not None, "the node says that it is ready"
        change = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        await one.client.patch(NODE, "", "n", change, subresource="status", content_type=STRATEGIC)
        await becomes(one.client, POD, "default", "p", lambda pod: pod is None)


async def test_the_end_of_a_toleration_is_called_off_when_the_pod_goes_before_it(timed: Start) -> None:
    async with timed("taint-eviction-controller") as one:
        await join(one, "n")
        toleration = {"key": "out", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20}
        for name in ("early", "late"):
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}}
            await one.client.create(POD, {**body, "spec": pod_spec(node="n", tolerations=[toleration])})
        await one.client.patch(NODE, "", "n", {"spec": {"taints": [{"key": "out", "effect": "NoExecute"}]}})
        await one.pass_time(5)
        await one.client.delete(POD, "default", "early", {"gracePeriodSeconds": 0})
        await one.pass_time(20)
        await becomes(one.client, POD, "default", "late", lambda pod: pod is None)
        await one.pass_time(1)
        reported = {event["message"] for event in (await one.client.list(EVENT, "default"))["items"]}
        assert {"Cancelling deletion of Pod default/early", "Marking for deletion Pod default/late"} <= reported
        assert "Cancelling deletion of Pod default/late" not in reported


async def test_an_evicted_pod_has_the_reason_and_the_observed_generation(timed: Start) -> None:
    async with timed("taint-eviction-controller") as one:
        await join(one, "n")
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
        await one.client.create(POD, {**body, "spec": {**pod_spec(node="n"), "terminationGracePeriodSeconds": 30}})
        await one.client.patch(NODE, "", "n", {"spec": {"taints": [{"key": "out", "effect": "NoExecute"}]}})
        pod = await becomes(one.client, POD, "default", "p", lambda pod: "deletionTimestamp" in pod["metadata"])
        assert pod is not None
        (found,) = [row for row in pod["status"]["conditions"] if row["type"] == "DisruptionTarget"]
        assert (found["reason"], found["observedGeneration"]) == ("DeletionByTaintManager", 1)


def ready_of(node: Object | None) -> str:
    conditions = ((node or {}).get("status") or {}).get("conditions") or []
    return next((str(condition["status"]) for condition in conditions if condition["type"] == "Ready"), "")


def keys(node: Object | None) -> set[str]:
    return {taint["key"] for taint in ((node or {}).get("spec") or {}).get("taints") or []}


async def report(one: Timed, name: str) -> None:
    now = rfc3339(one.clock.now())
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
    change = {"status": {"conditions": [condition]}}
    await one.client.patch(NODE, "", name, change, subresource="status", content_type=STRATEGIC)


async def join(one: Timed, name: str) -> None:
    await one.client.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    await report(one, name)
    meta = {"name": name, "namespace": "kube-node-lease"}
    await one.client.create(LEASE, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta})


async def renew(one: Timed, name: str) -> None:
    await one.client.patch(LEASE, "kube-node-lease", name, {"spec": {"renewTime": rfc3339_micro(one.clock.now())}})


async def test_a_silent_node_becomes_unknown_and_one_that_renews_its_lease_does_not(timed: Start) -> None:
    async with timed("node-lifecycle-controller") as one:
        for name in ("silent", "lively"):
            await join(one, name)
        await becomes(one.client, NODE, "", "silent", lambda node: not keys(node))
        for _ in range(8):
            await one.pass_time(GRACE_S / 5)
            await renew(one, "lively")
        gone = await becomes(one.client, NODE, "", "silent", lambda node: UNREACHABLE in keys(node))
        assert ready_of(gone) == "Unknown"
        assert {taint["effect"] for taint in (gone or {})["spec"]["taints"]} == {"NoSchedule", "NoExecute"}
        there = await one.client.get(NODE, "", "lively")
        assert ready_of(there) == "True" and not keys(there)
        await report(one, "silent")
        await becomes(one.client, NODE, "", "silent", lambda node: not keys(node))


async def test_no_pod_is_evicted_if_no_node_responds(timed: Start) -> None:
    async with timed("node-lifecycle-controller") as one:
        for name in ("one", "two"):
            await join(one, name)
        for _ in range(8):
            await one.pass_time(GRACE_S / 5)
            await renew(one, "two")
        await becomes(one.client, NODE, "", "one", lambda node: effects(node) == {"NoSchedule", "NoExecute"})
        await one.pass_time(GRACE_S + 10)
        for name in ("one", "two"):
            await becomes(one.client, NODE, "", name, lambda node: effects(node) == {"NoSchedule"})
        await report(one, "two")
        await one.pass_time(1)
        await becomes(one.client, NODE, "", "one", lambda node: effects(node) == {"NoSchedule", "NoExecute"})


def effects(node: Object | None) -> set[str]:
    return {str(taint["effect"]) for taint in ((node or {}).get("spec") or {}).get("taints") or []}


# --- refusals


async def test_a_set_refused_by_quota_tries_with_growing_pauses(timed: Start) -> None:
    async with timed("replicaset-controller", "resourcequota-controller") as one:
        meta = {"name": "q", "namespace": "default"}
        body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": {"pods": "3"}}}
        await one.client.create(QUOTA, body)
        await becomes(one.client, QUOTA, "default", "q", lambda it: bool((it.get("status") or {}).get("hard")))
        await one.client.create(SET, workload("ReplicaSet", "rs", 1000))
        await all_become(one.client, POD, "default", lambda pods: len(pods) == 3)
        await one.pass_time(20)
        one.calls.clear()
        await one.pass_time(10)
        assert len(made(one.calls, POD)) <= 3
        written = [call for call in one.calls if call[0] == "PUT" and call[1].endswith("/rs/status")]
        assert len(written) <= 1
        reported = await one.client.get(SET, "default", "rs")
        assert {it["type"]: it["reason"] for it in reported["status"]["conditions"]} == {
            "ReplicaFailure": "FailedCreate"
        }


def made(calls: list[tuple[str, str]], kind: Kind) -> list[tuple[str, str]]:
    return [call for call in calls if call == ("POST", kind.path("default"))]


# --- announced disruptions


async def announced(one: Timed, name: str, **more: Any) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": pod_spec()}
    await one.client.create(POD, body)
    target = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": rfc3339(one.clock.now()), **more}
    status = {"status": {"phase": "Running", "conditions": [target]}}
    await one.client.patch(POD, "default", name, status, "status", content_type=STRATEGIC)


async def target_of(one: Timed, name: str) -> Object:
    pod = await one.client.get(POD, "default", name)
    (target,) = [each for each in pod["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    return dict(target)


async def test_a_disruption_that_never_came_is_withdrawn_after_two_minutes(timed: Start) -> None:
    async with timed("disruption-controller") as one:
        await announced(one, "p", reason="EvictionByEvictionAPI", message="Eviction API: evicting")
        await one.pass_time(119)
        assert (await target_of(one, "p"))["status"] == "True"
        await one.pass_time(3)
        target = await target_of(one, "p")
        assert (target["status"], target["observedGeneration"]) == ("False", 1)
        assert "reason" not in target and "message" not in target


async def test_a_disruption_that_the_node_announced_stays_announced(timed: Start) -> None:
    async with timed("disruption-controller") as one:
        await announced(one, "p", reason="TerminationByKubelet")
        await one.pass_time(125)
        assert (await target_of(one, "p"))["status"] == "True"
