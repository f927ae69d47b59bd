"""A pod's life on a node, from admission to its end, against the real API server and the fake runtime."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.cluster.agentpods import container, create, pod, states
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.agent.furnish.volumes.objects import CONFIG_MAP
from podfit.agent.runtimes.fake.runtime import FakeRuntime
from podfit.agent.runtimes.values import Limits, RuntimeFailure
from podfit.api.registry.kinds import NODE, POD
from podfit.api.status import ApiError
from podfit.client.rest import STRATEGIC
from podfit.client.transport import ClientRequest, Reply, Unreachable

# --- admission ------------------------------------------------------------------------------------------------------


async def test_a_pod_without_room_is_rejected_with_the_message_of_kubernetes(cluster: Cluster, node: TestNode) -> None:
    large = {"requests": {"cpu": "1500m"}}
    await create(cluster, node, pod("first", {**container(), "resources": large}))
    seen = await create(cluster, node, pod("second", {**container(), "resources": large}))
    assert seen["status"]["phase"] == "Failed"
    assert seen["status"]["reason"] == "OutOfcpu"
    assert seen["status"]["message"] == (
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 1500, used: 1500, capacity: 2000"
    )


async def test_a_pod_that_selects_another_node_is_rejected(cluster: Cluster, node: TestNode) -> None:
    seen = await create(cluster, node, pod("p", nodeSelector={"disk": "ssd"}))
    assert (seen["status"]["phase"], seen["status"]["reason"]) == ("Failed", "NodeAffinity")


async def test_a_label_just_added_to_the_node_counts(cluster: Cluster, node: TestNode) -> None:
    await cluster.client.patch(NODE, "", "node1", {"metadata": {"labels": {"disk": "ssd"}}})
    seen = await create(cluster, node, pod("p", nodeSelector={"disk": "ssd"}))
    assert seen["status"]["phase"] == "Running"


async def test_more_pods_than_the_node_takes_are_rejected(cluster: Cluster) -> None:
    small = await cluster.node("node1", max_pods=1, capacity={"cpu": "2", "memory": "4Gi"})
    await create(cluster, small, pod("one"))
    assert (await create(cluster, small, pod("two")))["status"]["reason"] == "OutOfpods"


# --- running --------------------------------------------------------------------------------------------------------


async def test_init_containers_run_one_after_the_other_before_the_rest(cluster: Cluster, node: TestNode) -> None:
    inits = [container("i1", "sleep 5"), container("i2", "sleep 5")]
    seen = await create(cluster, node, pod("p", initContainers=inits))
    assert states(seen, "initContainerStatuses") == {"i1": "running", "i2": "waiting"}
    assert states(seen) == {"c": "waiting"}
    await node.pass_time(6)
    seen = await cluster.pod("p")
    assert states(seen, "initContainerStatuses") == {"i1": "terminated", "i2": "running"}
    await node.pass_time(6)
    seen = await cluster.pod("p")
    assert states(seen) == {"c": "running"}
    assert seen["status"]["phase"] == "Running"


async def test_a_container_after_init_containers_waits_as_they_did(cluster: Cluster, node: TestNode) -> None:
    ready = {"name": "i", "image": "busybox:1", "command": ["true"]}
    hook = {"postStart": {"sleep": {"seconds": 5}}}
    await create(cluster, node, pod("p", container("c", lifecycle=hook), container("d"), initContainers=[ready]))
    await node.pass_time(2)
    status = (await cluster.pod("p"))["status"]
    assert "running" in status["containerStatuses"][0]["state"]
    assert status["containerStatuses"][1]["state"] == {"waiting": {"reason": "PodInitializing"}}


async def test_a_failed_init_container_fails_a_pod_that_never_restarts(cluster: Cluster, node: TestNode) -> None:
    seen = await create(cluster, node, pod("p", restartPolicy="Never", initContainers=[container("i", "exit 3")]))
    assert seen["status"]["phase"] == "Failed"
    assert seen["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


async def test_a_sidecar_ends_after_the_work_is_done(cluster: Cluster, node: TestNode) -> None:
    sidecar = container("s", "trap 'exit 0' TERM; sleep 1d", restartPolicy="Always")
    body = pod("p", container("c", "sleep 3"), restartPolicy="Never", initContainers=[sidecar])
    seen = await create(cluster, node, body)
    assert states(seen, "initContainerStatuses") == {"s": "running"}
    await node.pass_time(12)
    seen = await cluster.pod("p")
    assert seen["status"]["phase"] == "Succeeded"
    assert states(seen, "initContainerStatuses") == {"s": "terminated"}


async def test_a_crashing_container_backs_off_longer_each_time(cluster: Cluster, node: TestNode) -> None:
    await create(cluster, node, pod("p", container("c", "sleep 1; exit 1")))
    await node.pass_time(3)
    seen = (await cluster.pod("p"))["status"]["containerStatuses"][0]
    assert seen["restartCount"] == 1
    assert seen["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert "back-off 10s" in seen["state"]["waiting"]["message"]
    assert seen["lastState"]["terminated"]["exitCode"] == 1
    await node.pass_time(12)
    seen = (await cluster.pod("p"))["status"]["containerStatuses"][0]
    assert seen["restartCount"] == 2
    assert "back-off 20s" in seen["state"]["waiting"]["message"]


async def test_a_crashing_container_is_shown_as_ended_when_its_pod_has_ended(cluster: Cluster, node: TestNode) -> None:
    await create(cluster, node, pod("p", container(command="exit 3")))
    await node.pass_time(2)
    seen = (await cluster.pod("p"))["status"]["containerStatuses"][0]
    assert seen["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    await cluster.client.patch(POD, "default", "p", {"metadata": {"finalizers": ["x.io/hold"]}}, content_type=STRATEGIC)
    await cluster.client.delete(POD, "default", "p")
    await node.pass_time(2)
    status = (await cluster.pod("p"))["status"]
    assert status["phase"] == "Failed"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 3
    await cluster.client.patch(POD, "default", "p", {"metadata": {"finalizers": None}}, content_type=STRATEGIC)


async def test_a_job_pod_succeeds_and_keeps_its_object(cluster: Cluster, node: TestNode) -> None:
    await create(cluster, node, pod("p", container("c", "sleep 2"), restartPolicy="OnFailure"))
    await node.pass_time(4)
    seen = await cluster.pod("p")
    assert seen["status"]["phase"] == "Succeeded"
    ready = {
        condition["type"]: (condition["status"], condition.get("reason")) for condition in seen["status"]["conditions"]
    }
    assert ready["Ready"] == ("False", "PodCompleted")


async def test_a_deadline_fails_the_pod(cluster: Cluster, node: TestNode) -> None:
    await create(cluster, node, pod("p", activeDeadlineSeconds=30))
    await node.pass_time(45)
    seen = (await cluster.pod("p"))["status"]
    assert (seen["phase"], seen["reason"]) == ("Failed", "DeadlineExceeded")


async def test_a_container_that_never_ran_has_an_end_when_its_pod_has(cluster: Cluster, node: TestNode) -> None:
    lacking = container("d", envFrom=[{"configMapRef": {"name": "settings"}}])
    await create(cluster, node, pod("p", container("c"), lacking, activeDeadlineSeconds=5))
    await node.pass_time(12)
    seen = await cluster.pod("p")
    assert (seen["status"]["phase"], seen["status"]["reason"]) == ("Failed", "DeadlineExceeded")
    ran, never = seen["status"]["containerStatuses"]
    assert ran["state"]["terminated"]["reason"] == "Error"
    assert never["state"] == {
        "terminated": {
            "exitCode": 137,
            "reason": "ContainerStatusUnknown",
            "message": "The container could not be located when the pod was terminated",
            "startedAt": None,
            "finishedAt": None,
        }
    }


async def test_a_container_that_waited_for_the_beginning_still_does_when_its_pod_has_ended(
    cluster: Cluster, node: TestNode
) -> None:
    first = {"initContainers": [container("i")]}
    await create(cluster, node, pod("p", container("c"), activeDeadlineSeconds=5, **first))
    await node.pass_time(12)
    seen = await cluster.pod("p")
    assert seen["status"]["phase"] == "Failed"
    assert seen["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}


async def test_a_missing_configmap_is_a_waiting_reason_until_it_comes(cluster: Cluster, node: TestNode) -> None:
    body = pod("p", container(envFrom=[{"configMapRef": {"name": "settings"}}]))
    seen = await create(cluster, node, body)
    waiting = seen["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {"reason": "CreateContainerConfigError", "message": 'configmap "settings" not found'}
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}
    await cluster.client.create(CONFIG_MAP, {**data, "data": {"COLOUR": "blue"}})
    await node.pass_time(10)
    assert states(await cluster.pod("p")) == {"c": "running"}
    running = next(iter(node.machine.containers.values()))
    assert running.config.environment["COLOUR"] == "blue"


async def test_a_pass_that_finds_nothing_to_do_writes_nothing(cluster: Cluster, node: TestNode) -> None:
    seen = await create(cluster, node, pod("p"))
    for _ in range(3):
        node.agent.enqueue(seen["metadata"]["uid"])
        await node.quiet()
    assert (await cluster.pod("p"))["metadata"]["resourceVersion"] == seen["metadata"]["resourceVersion"]


# --- ending ---------------------------------------------------------------------------------------------------------


async def test_a_deleted_pod_gets_its_grace_and_then_its_object_goes(cluster: Cluster, node: TestNode) -> None:
    await create(cluster, node, pod("p"))
    await cluster.client.delete(POD, "default", "p")
    await node.quiet()
    assert states(await cluster.pod("p")) == {"c": "running"}
    await node.pass_time(6)
    with pytest.raises(ApiError):
        await cluster.pod("p")
    assert not node.machine.pods and not node.agent.records
    assert not node.agent.ledger.uids()


async def test_a_pod_that_vanishes_from_the_api_is_stopped(cluster: Cluster, node: TestNode) -> None:
    await create(cluster, node, pod("p"))
    await cluster.client.delete(POD, "default", "p", {"gracePeriodSeconds": 0})
    await node.pass_time(6)
    assert not node.machine.pods and not node.agent.records


async def test_pods_deleted_while_the_agent_was_down_are_cleaned_up(cluster: Cluster, node: TestNode) -> None:
    await create(cluster, node, pod("p"))
    await node.stop()
    await cluster.client.delete(POD, "default", "p", {"gracePeriodSeconds": 0})
    assert node.machine.pods
    await node.restart()
    assert not node.machine.pods


# --- what may go wrong ----------------------------------------------------------------------------------------------


async def test_pods_run_on_while_the_agent_is_away_and_are_adopted(cluster: Cluster, node: TestNode) -> None:
    before = await create(cluster, node, pod("p"))
    await node.restart()
    after = await cluster.pod("p")
    assert after["status"] == before["status"]
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_a_corrupt_ledger_is_set_aside_and_rebuilt(
    cluster: Cluster, node: TestNode, caplog: pytest.LogCaptureFixture
) -> None:
    seen = await create(cluster, node, pod("p"))
    uid = seen["metadata"]["uid"]
    promised = node.agent.ledger.allocated(uid)
    await node.stop()
    path = node.agent.ledger.path
    path.write_text(path.read_text().replace("100m", "900m"))
    await node.restart()
    assert node.agent.ledger.allocated(uid) == promised
    assert list(path.parent.glob("ledger.corrupt-*"))
    assert any(record.levelname == "ERROR" and "set aside" in record.message for record in caplog.records)
    assert (await cluster.pod("p"))["status"] == seen["status"]


async def test_an_allocation_that_cannot_be_persisted_is_not_granted(
    cluster: Cluster, node: TestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = await create(cluster, node, pod("p"))
    uid = seen["metadata"]["uid"]
    ledger = node.agent.ledger
    written = ledger._write

    def full(data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ledger, "_write", full)
    larger = {"requests": {"cpu": "300m"}, "limits": {"cpu": "400m"}}
    await cluster.resize("p", {"spec": {"containers": [{"name": "c", "resources": larger}]}})
    await node.quiet()
    assert node.machine.pods[uid].limits.cpu_quota_us == 20_000
    monkeypatch.setattr(ledger, "_write", written)
    await node.pass_time(10)
    assert node.machine.pods[uid].limits.cpu_quota_us == 40_000
    assert '"cpu":"400m"' in ledger.path.read_text()


async def test_a_runtime_that_fails_once_is_called_again(cluster: Cluster, node: TestNode) -> None:
    seen = await create(cluster, node, pod("p"))
    node.runtime.fail_next("update_container", RuntimeFailure("the runtime is busy"))
    larger = {"requests": {"cpu": "300m"}, "limits": {"cpu": "400m"}}
    await cluster.resize("p", {"spec": {"containers": [{"name": "c", "resources": larger}]}})
    await node.quiet()
    conditions = {condition["type"]: condition for condition in (await cluster.pod("p"))["status"]["conditions"]}
    why = 'cannot set CPU of container "c" to a limit of 400m and 307 shares: the runtime is busy'
    assert conditions["PodResizeInProgress"]["message"] == why
    await node.pass_time(10)
    after = await cluster.pod("p")
    assert "PodResizeInProgress" not in {condition["type"] for condition in after["status"]["conditions"]}
    assert node.machine.pods[seen["metadata"]["uid"]].limits.cpu_quota_us == 40_000


async def test_nothing_is_lost_while_the_api_server_is_away(cluster: Cluster, node: TestNode) -> None:
    seen = await create(cluster, node, pod("p", container("c", "sleep 20; exit 1")))
    uid = seen["metadata"]["uid"]
    transport = node.agent.client.transport
    original, away = transport.request, True

    async def request(ask: ClientRequest) -> Reply:
        if away:
            raise Unreachable("nobody answers")
        return await original(ask)

    transport.request = request  # type: ignore[method-assign]
    await node.cluster.clock.advance(60)
    for _ in range(200):
        await asyncio.sleep(0)
    attempts = [listed.config.attempt for listed in node.machine.containers.values()]
    assert max(attempts) >= 1, "the container was started again though nobody could be told"
    away = False
    await node.cluster.clock.advance(30)
    await node.quiet()
    status = (await cluster.pod("p"))["status"]["containerStatuses"][0]
    assert status["restartCount"] == max(listed.config.attempt for listed in node.machine.containers.values())
    assert node.agent.ledger.allocated(uid) is not None


async def test_a_rejected_pod_can_be_deleted(cluster: Cluster, node: TestNode) -> None:
    await create(cluster, node, pod("p", nodeSelector={"disk": "ssd"}))
    await cluster.client.delete(POD, "default", "p")
    await node.pass_time(2)
    assert await cluster.client.find(POD, "default", "p") is None
    assert not node.agent.records


async def test_a_pod_that_ended_while_the_agent_was_down_is_reported_and_deletable(
    cluster: Cluster, node: TestNode
) -> None:
    await create(cluster, node, pod("p", container("c", "sleep 5"), restartPolicy="Never"))
    await node.stop()
    await cluster.clock.advance(10)
    await node.restart()
    assert (await cluster.pod("p"))["status"]["phase"] == "Succeeded"
    await node.restart()
    await cluster.client.delete(POD, "default", "p")
    await node.pass_time(2)
    assert not node.machine.pods and not node.agent.records


async def test_volumes_made_of_objects_are_mounted_and_follow_them(cluster: Cluster) -> None:
    node = await cluster.node("node1", on_disk=True, capacity={"cpu": "2", "memory": "4Gi"})
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}
    await cluster.client.create(CONFIG_MAP, {**data, "data": {"colour": "blue"}})
    authority = {**data, "metadata": {"name": "kube-root-ca.crt", "namespace": "default"}, "data": {"ca.crt": "x"}}
    size = {"containerName": "c", "resource": "limits.memory", "divisor": "1Mi"}
    volumes = [
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "me", "downwardAPI": {"items": [{"path": "memory", "resourceFieldRef": size}]}},
    ]
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
    body = pod("p", container(volumeMounts=mounts), volumes=volumes)
    body["spec"]["automountServiceAccountToken"] = True
    seen = await create(cluster, node, body)
    assert seen["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert "FailedMount" in {event["reason"] for event in await cluster.events()}
    await cluster.client.create(CONFIG_MAP, authority)
    await node.pass_time(3)
    assert states(await cluster.pod("p")) == {"c": "running"}
    running = next(iter(node.machine.containers.values()))
    paths = {mount.container_path: mount.host_path for mount in running.config.mounts}
    assert (paths["/settings"] / "colour").read_text() == "blue"
    assert (paths["/me"] / "memory").read_text() == "128"
    assert list(paths["/scratch"].iterdir()) == []
    token = paths["/var/run/secrets/kubernetes.io/serviceaccount"]
    assert (token / "namespace").read_text() == "default" and (token / "token").read_text().count(".") == 2

    await cluster.client.patch(CONFIG_MAP, "default", "settings", {"data": {"colour": "red"}})
    larger = {"limits": {"memory": "256Mi"}}
    await cluster.resize("p", {"spec": {"containers": [{"name": "c", "resources": larger}]}})
    await node.pass_time(70, 10)
    assert (paths["/settings"] / "colour").read_text() == "red"
    assert (paths["/me"] / "memory").read_text() == "256"

    await cluster.client.delete(POD, "default", "p", {"gracePeriodSeconds": 0})
    await node.pass_time(4)
    assert not paths["/settings"].exists()


async def test_a_pod_deleted_while_the_agent_takes_over_is_not_kept(
    cluster: Cluster, node: TestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(cluster, node, pod())
    await node.stop()
    look = FakeRuntime.container_limits

    async def deleted_meanwhile(runtime: FakeRuntime, container_id: str) -> Limits:
        monkeypatch.undo()
        await cluster.client.delete(POD, "default", "p", {"gracePeriodSeconds": 0})
        while list(node.agent._cache):
            await asyncio.sleep(0)
        return await look(runtime, container_id)

    monkeypatch.setattr(FakeRuntime, "container_limits", deleted_meanwhile)
    await node.restart()
    await node.pass_time(8)
    assert not node.machine.pods
    assert not node.agent.records


async def test_a_pod_without_an_allocation_is_not_touched_until_it_is_deleted(
    cluster: Cluster, node: TestNode, caplog: pytest.LogCaptureFixture
) -> None:
    seen = await create(cluster, node, pod())
    uid = seen["metadata"]["uid"]
    node.agent.ledger.forget(uid)
    node.agent.enqueue(uid)
    await node.quiet()
    assert "a pass failed" not in caplog.text
    await cluster.client.delete(POD, "default", "p")
    await node.pass_time(8)
    assert uid not in node.machine.pods
    assert await cluster.client.find(POD, "default", "p") is None


async def test_a_container_added_to_debug_a_pod_runs_once_and_is_shown(cluster: Cluster, node: TestNode) -> None:
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 1}
    await create(cluster, node, pod("p", container(readinessProbe=probe)))
    look = {"name": "look", "image": "busybox:1", "command": ["sh", "-c", "sleep 3; exit 4"]}
    added = {"spec": {"ephemeralContainers": [look]}}
    await cluster.client.patch(POD, "default", "p", added, "ephemeralcontainers", STRATEGIC)
    await node.pass_time(1)
    seen = (await cluster.pod("p"))["status"]
    (shown,) = seen["ephemeralContainerStatuses"]
    assert "running" in shown["state"] and shown["ready"] is False
    assert "resources" not in shown and "started" not in shown
    assert seen["containerStatuses"][0]["ready"] is True
    await node.pass_time(5)
    seen = (await cluster.pod("p"))["status"]
    assert seen["ephemeralContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 4
    assert (seen["phase"], seen["containerStatuses"][0]["restartCount"]) == ("Running", 0)
    await node.pass_time(20, 5)
    assert len([listed for listed in node.machine.containers.values() if listed.config.name == "look"]) == 1
    await cluster.client.delete(POD, "default", "p")
    await node.pass_time(8)
    assert not node.machine.pods


async def test_a_pod_with_an_oversized_allocation_does_not_block_allocations_of_others(
    cluster: Cluster, node: TestNode
) -> None:
    seen = await create(cluster, node, pod("held", restartPolicy="Never"))
    await create(cluster, node, pod("other"))
    larger = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "150m"}}}]}}
    too_large = {
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}]}
    }
    await cluster.resize("held", too_large)
    await node.quiet()
    node.agent.ledger.forget(seen["metadata"]["uid"])
    await cluster.resize("other", larger)
    await node.pass_time(2)
    (shown,) = (await cluster.pod("other"))["status"]["containerStatuses"]
    assert shown["allocatedResources"]["cpu"] == "150m"
