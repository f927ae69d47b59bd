"""Probes and hooks of containers, against the real API server and the fake runtime."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.cluster.agentpods import container, create, pod, states
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.api.registry.kinds import POD


async def test_a_failing_liveness_probe_restarts_the_container(cluster: Cluster, node: TestNode) -> None:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 2, "failureThreshold": 2}
    await create(cluster, node, pod("p", container(livenessProbe=probe), terminationGracePeriodSeconds=0))
    await node.pass_time(8)
    assert (await cluster.pod("p"))["status"]["containerStatuses"][0]["restartCount"] >= 1


async def test_a_container_that_failed_its_probe_is_not_probed_again(cluster: Cluster, node: TestNode) -> None:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    await create(cluster, node, pod("p", container(livenessProbe=probe), terminationGracePeriodSeconds=20))
    await node.pass_time(15)
    told = [event for event in await cluster.events() if event["reason"] == "Unhealthy"]
    assert [entry["count"] for entry in told] == [1]


async def test_events_name_the_container_they_are_about(cluster: Cluster, node: TestNode) -> None:
    spec = {"initContainers": [container("i", "true")]}
    await create(cluster, node, pod("p", container("c"), container("d"), **spec))
    await node.pass_time(1)
    told = [
        event["involvedObject"].get("fieldPath") for event in await cluster.events() if event["reason"] == "Started"
    ]
    assert sorted(told) == ["spec.containers{c}", "spec.containers{d}", "spec.initContainers{i}"]


async def test_a_probe_may_have_a_grace_period_of_its_own(cluster: Cluster, node: TestNode) -> None:
    node.machine.journal = []
    probe = {"exec": {"command": ["false"]}, "failureThreshold": 1, "terminationGracePeriodSeconds": 3}
    await create(cluster, node, pod("p", container(livenessProbe=probe), terminationGracePeriodSeconds=30))
    await node.pass_time(5)
    assert [grace for what, _, grace in node.machine.journal if what == "stop_container"] == [3.0]


async def test_readiness_follows_its_probe(cluster: Cluster, node: TestNode) -> None:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1}
    seen = await create(cluster, node, pod("p", container(readinessProbe=probe)))
    assert seen["status"]["containerStatuses"][0]["ready"] is False
    other = await create(cluster, node, pod("q", container(readinessProbe={"exec": {"command": ["true"]}})))
    await node.pass_time(2)
    other = await cluster.pod("q")
    assert other["status"]["containerStatuses"][0]["ready"] is True


def reported_statuses(node: TestNode, name: str) -> list[tuple[bool, bool]]:
    """Every (started, ready) reported to the API from now on; the list grows."""
    reported: list[tuple[bool, bool]] = []
    write = node.agent.parts.reporter._writer.write

    async def listen(record: Any, status: Any, *more: Any) -> bool:
        for entry in status.get("containerStatuses") or () if record.name == name else ():
            reported.append((entry["started"], entry["ready"]))
        return await write(record, status, *more)

    node.agent.parts.reporter._writer.write = listen  # type: ignore[method-assign]
    return reported


@pytest.mark.parametrize("kind", ["readinessProbe", "startupProbe"])
async def test_no_container_is_ready_before_its_readiness_probe_succeeded(
    cluster: Cluster, node: TestNode, kind: str
) -> None:
    reported = reported_statuses(node, "p")
    probe: dict[str, Any] = {"exec": {"command": ["true"]}, "periodSeconds": 1, "initialDelaySeconds": 3}
    probes: dict[str, Any] = {kind: probe}
    await create(cluster, node, pod("p", container(**probes)))
    await node.pass_time(5)
    ready = [item for _, item in reported]
    assert ready == sorted(ready) and ready[-1] is True and ready.count(False) >= 2


async def test_readiness_is_probed_as_soon_as_the_start_is_known(cluster: Cluster, node: TestNode) -> None:
    probes: dict[str, Any] = {
        "startupProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1, "initialDelaySeconds": 3},
        "readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 60},
    }
    await create(cluster, node, pod("p", container(**probes)))
    await node.pass_time(5)
    assert (await cluster.pod("p"))["status"]["containerStatuses"][0]["ready"] is True


async def test_every_gate_that_keeps_a_pod_from_being_ready_is_named(cluster: Cluster, node: TestNode) -> None:
    await create(cluster, node, pod("p", readinessGates=[{"conditionType": "a/b"}, {"conditionType": "c/d"}]))
    await cluster.client.patch(
        POD, "default", "p", {"status": {"conditions": [{"type": "a/b", "status": "False"}]}}, subresource="status"
    )
    await node.quiet()
    ready = next(
        condition for condition in (await cluster.pod("p"))["status"]["conditions"] if condition["type"] == "Ready"
    )
    assert (ready["status"], ready["reason"]) == ("False", "ReadinessGatesNotReady")
    assert ready["message"] == (
        'the status of pod readiness gate "a/b" is not "True", but False, '
        'corresponding condition of pod readiness gate "c/d" does not exist.'
    )


async def test_a_ready_container_stays_so_across_a_restart_of_the_agent(cluster: Cluster, node: TestNode) -> None:
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 5, "initialDelaySeconds": 1}
    await create(cluster, node, pod("p", container(readinessProbe=probe, startupProbe=probe)))
    await node.pass_time(8)
    before = await cluster.pod("p")
    assert before["status"]["containerStatuses"][0]["ready"] is True
    await node.restart()
    await node.pass_time(12)
    after = await cluster.pod("p")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_a_failing_post_start_hook_ends_the_container(cluster: Cluster, node: TestNode) -> None:
    hook = {"postStart": {"exec": {"command": ["false"]}}}
    await create(cluster, node, pod("p", container(lifecycle=hook), terminationGracePeriodSeconds=2))
    await node.pass_time(4)
    seen = (await cluster.pod("p"))["status"]["containerStatuses"][0]
    assert seen["restartCount"] >= 1 or "waiting" in seen["state"]
    told = [(event["reason"], event["message"]) for event in await cluster.events()]
    assert ("FailedPostStartHook", "PostStartHook failed") in told
    assert ("Killing", "FailedPostStartHook") in told


async def test_a_container_with_a_failed_post_start_hook_has_that_waiting_reason(
    cluster: Cluster, node: TestNode
) -> None:
    hook = {"postStart": {"exec": {"command": ["sh", "-c", "exit 3"]}}}
    seen = await create(cluster, node, pod("p", container(lifecycle=hook), terminationGracePeriodSeconds=2))
    told = f'for Container "c" in Pod "p_default({seen["metadata"]["uid"]})" failed'
    why = f"Exec lifecycle hook ([sh -c exit 3]) {told} - error: command 'sh -c exit 3' exited with 3: , message: \"\""
    shown: list[dict[str, Any]] = []
    for _ in range(65):
        await cluster.clock.advance(0.1)
        await node.quiet()
        shown.append((await cluster.pod("p"))["status"]["containerStatuses"][0])
    failed = [
        entry for entry in shown if entry["state"].get("waiting") == {"reason": "PostStartHookError", "message": why}
    ]
    assert {(entry["restartCount"], *entry["lastState"]) for entry in failed} >= {(0, "terminated"), (1, "terminated")}
    assert shown[-1]["state"]["waiting"]["reason"] == "CrashLoopBackOff"


async def test_nothing_else_starts_while_a_post_start_hook_runs(cluster: Cluster, node: TestNode) -> None:
    hook = {"postStart": {"sleep": {"seconds": 5}}}
    await create(cluster, node, pod("p", container("a", lifecycle=hook), container("b")))
    await node.pass_time(3)
    node.agent.enqueue((await cluster.pod("p"))["metadata"]["uid"])
    await node.quiet()
    assert states(await cluster.pod("p")) == {"a": "running", "b": "waiting"}
    await node.pass_time(3)
    assert states(await cluster.pod("p")) == {"a": "running", "b": "running"}


async def test_the_output_of_a_failed_hook_is_in_the_story_and_in_no_event(cluster: Cluster, node: TestNode) -> None:
    hook = {"preStop": {"exec": {"command": ["false"]}}}
    seen = await create(cluster, node, pod("p", container(lifecycle=hook)))
    record = node.agent.records[seen["metadata"]["uid"]]
    await cluster.client.delete(POD, "default", "p")
    await node.pass_time(4)
    told = [event["message"] for event in await cluster.events() if event["reason"] == "FailedPreStopHook"]
    assert told == ["PreStopHook failed"]
    assert [item.why for item in record.story if item.what == "hook failed"] == [
        f'Exec lifecycle hook ([false]) for Container "c" in Pod "{record.who}" failed - error: '
        "command 'false' exited with 1: , message: \"\""
    ]


async def test_a_container_whose_post_start_hook_failed_ends_as_gracefully_as_any(
    cluster: Cluster, node: TestNode
) -> None:
    hooks = {"postStart": {"exec": {"command": ["false"]}}, "preStop": {"sleep": {"seconds": 20}}}
    await create(cluster, node, pod("p", container(lifecycle=hooks), terminationGracePeriodSeconds=30))
    await node.pass_time(25)
    seen = (await cluster.pod("p"))["status"]["containerStatuses"][0]
    assert ("running" in seen["state"], seen["restartCount"]) == (True, 0)
    await node.pass_time(7)
    assert (await cluster.pod("p"))["status"]["containerStatuses"][0]["restartCount"] == 1
