"""Injected faults around a node: runtime errors, full disks, absent servers, clock jumps, odd watches.

Pods keep running, allocations hold, and the node reaches the right state without intervention.
"""

from __future__ import annotations

import asyncio
import copy
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.agentpods import SMALL, container, pod
from tests.support.cluster.nodes import Cluster, TestNode, local_client

from podfit.agent.agent import Agent
from podfit.agent.pods.ledger import Ledger, _line
from podfit.agent.runtimes.values import RUNNING, CannotRun, ImageState, NotFound, RuntimeFailure
from podfit.api.registry.kinds import NODE, POD
from podfit.client.transport import Unreachable

LARGER = {"requests": {"cpu": "300m", "memory": "64Mi"}, "limits": {"cpu": "400m", "memory": "128Mi"}}


@pytest.fixture
async def remote(cluster: Cluster) -> TestNode:
    """A node whose connection can be interrupted."""
    made = TestNode(cluster, "node1", {"capacity": {"cpu": "2", "memory": "4Gi"}})
    made.agent = Agent(local_client(cluster.server), made.runtime, made.config, cluster.clock)
    cluster.nodes.append(made)
    await made.start()
    return made


async def create(cluster: Cluster, node: TestNode, body: dict[str, Any]) -> dict[str, Any]:
    await cluster.client.create(POD, body)
    await node.quiet()
    return await cluster.pod(body["metadata"]["name"])


async def grow(cluster: Cluster, name: str = "p") -> None:
    await cluster.resize(name, {"spec": {"containers": [{"name": "c", "resources": LARGER}]}})


def waiting(seen: dict[str, Any], number: int = 0) -> tuple[str, str]:
    state = seen["status"]["containerStatuses"][number]["state"]
    return state["waiting"]["reason"], state["waiting"].get("message", "")


async def said(cluster: Cluster) -> set[tuple[str, str, str]]:
    return {(event["type"], event["reason"], event["message"]) for event in await cluster.events()}


async def runs(cluster: Cluster, name: str = "p") -> bool:
    status = (await cluster.pod(name))["status"]
    return status["phase"] == "Running" and all(
        "running" in container_status["state"] for container_status in status["containerStatuses"]
    )


# --- the runtime fails ----------------------------------------------------------------------------------------------

OPERATIONS = ["run_pod", "create_container", "start_container"]
FAILURES = [RuntimeFailure("the runtime is busy"), OSError(errno.ENOSPC, "No space left on device"), NotFound("no")]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("failure", FAILURES, ids=["refused", "full", "absent"])
async def test_a_failed_start_is_reported_and_retried(
    cluster: Cluster, node: TestNode, operation: str, failure: Exception
) -> None:
    node.runtime.fail_next(operation, failure, times=3)
    await create(cluster, node, pod("p"))
    await node.until(lambda: runs(cluster))
    assert not node.machine.failures[operation], "it was tried as often as it failed"


async def test_a_container_that_cannot_be_created_waits_with_the_reason(cluster: Cluster, node: TestNode) -> None:
    node.runtime.fail_next("create_container", CannotRun("no device", "CreateContainerError"), times=2)
    seen = await create(cluster, node, pod("p", container("c"), container("d")))
    assert waiting(seen) == ("CreateContainerError", "no device")
    assert ("Warning", "Failed", "Error: no device") in await said(cluster)
    await node.until(lambda: runs(cluster))


async def test_a_container_that_cannot_be_started_waits_as_run_container_error(
    cluster: Cluster, node: TestNode
) -> None:
    broken = {**container(), "command": ["/nonexistent"]}
    seen = await create(cluster, node, pod("p", broken, container("d")))
    assert waiting(seen)[0] == "RunContainerError"
    assert "running" in seen["status"]["containerStatuses"][1]["state"]
    assert seen["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 128
    await node.pass_time(30)
    assert waiting(await cluster.pod("p"))[0] == "CrashLoopBackOff"


async def test_an_image_that_cannot_be_pulled_is_retried_with_pauses(cluster: Cluster, node: TestNode) -> None:
    node.machine.missing_images.add("absent:1")
    seen = await create(cluster, node, pod("p", container(image="absent:1")))
    error = 'failed to pull image "absent:1": not found'
    assert waiting(seen) == ("ErrImagePull", error)
    await node.pass_time(3)
    seen = await cluster.pod("p")
    assert waiting(seen) == ("ImagePullBackOff", f'Back-off pulling image "absent:1": ErrImagePull: {error}')
    assert {
        ("Normal", "Pulling", 'Pulling image "absent:1"'),
        ("Warning", "Failed", f'Failed to pull image "absent:1": {error}'),
        ("Warning", "Failed", "Error: ErrImagePull"),
        ("Normal", "BackOff", 'Back-off pulling image "absent:1"'),
        ("Warning", "Failed", "Error: ImagePullBackOff"),
    } <= await said(cluster)
    node.machine.missing_images.clear()
    await node.until(lambda: runs(cluster))


async def test_an_invalid_image_name_is_reported(cluster: Cluster, node: TestNode) -> None:
    seen = await create(cluster, node, pod("p", container(image="not an image")))
    reason, message = waiting(seen)
    assert reason == "InvalidImageName"
    assert message == (
        'Failed to apply default image tag "not an image": '
        'couldn\'t parse image name "not an image": invalid reference format'
    )
    assert {("Warning", "InspectFailed", message), ("Warning", "Failed", "Error: InvalidImageName")} <= await said(
        cluster
    )


async def test_a_name_that_is_not_an_image_stays_rejected_where_every_image_is_the_host(
    cluster: Cluster, node: TestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def host_files(image: str, handler: str = "") -> ImageState:
        return ImageState("host", host_files=True)

    monkeypatch.setattr(node.runtime, "image_status", host_files)
    await create(cluster, node, pod("p", container(image="not an image")))
    await node.pass_time(30)
    assert waiting(await cluster.pod("p"))[0] == "InvalidImageName"


@pytest.mark.parametrize("failure", [OSError(errno.EIO, "Input/output error"), TypeError("no such argument")])
async def test_a_runtime_that_loses_its_images_is_not_a_crash(
    cluster: Cluster, node: TestNode, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    async def broken(image: str, handler: str = "") -> None:
        raise failure

    monkeypatch.setattr(node.runtime, "image_status", broken)
    seen = await create(cluster, node, pod("p"))
    assert waiting(seen)[0] == "ErrImagePull"
    monkeypatch.undo()
    await node.until(lambda: runs(cluster))


async def test_a_stop_that_fails_is_retried_until_the_pod_is_gone(cluster: Cluster, node: TestNode) -> None:
    await create(cluster, node, pod("p"))
    for operation in ("stop_container", "stop_pod", "remove_pod", "remove_container"):
        node.runtime.fail_next(operation, RuntimeFailure("the runtime is busy"), times=2)
    node.runtime.fail_next("stop_container", TimeoutError("it does not die"), times=1)
    await cluster.client.delete(POD, "default", "p")

    async def gone() -> bool:
        return await cluster.client.find(POD, "default", "p") is None

    await node.until(gone)
    assert not node.machine.pods
    assert not node.agent.ledger.uids()


async def test_a_container_that_ends_in_the_middle_of_its_resize_is_not_an_error(
    cluster: Cluster, node: TestNode
) -> None:
    await create(cluster, node, pod("p"))
    node.runtime.fail_next("update_container", NotFound("it ended"))
    await grow(cluster)
    await node.pass_time(1)
    assert not [event for event in await cluster.events() if event["reason"] == "ResizeError"]
    node.agent.enqueue((await cluster.pod("p"))["metadata"]["uid"])
    await node.quiet()
    status = (await cluster.pod("p"))["status"]["containerStatuses"][0]
    assert status["resources"]["limits"]["cpu"] == "400m"


async def test_a_manifest_with_unreadable_references_waits_with_the_reason(cluster: Cluster, tmp_path: Path) -> None:
    node = await cluster.node("node1", on_disk=True, capacity={"cpu": "2", "memory": "4Gi"})
    odd: dict[str, Any] = {"fieldRef": {"fieldPath": "status.nothingLikeThat"}}
    body = pod("p")["spec"]
    body["containers"][0]["env"] = [{"name": "A", "valueFrom": odd}]
    static = {**pod("odd"), "spec": body}
    static["metadata"] = {"name": "odd", "namespace": "default", "uid": "odd-1"}
    node.agent.roster.add(static)
    await node.quiet()
    record = node.agent.records["odd-1"]
    assert record.waiting.reason("c") == "CreateContainerConfigError"
    body["containers"][0]["env"] = []
    body["volumes"] = [{"name": "v", "downwardAPI": {"items": [{"path": "x", **odd}]}}]
    node.agent.enqueue("odd-1")
    await node.pass_time(3)
    assert any("MountVolume.SetUp failed" in message for _, _, message in await said(cluster))
    body["volumes"] = []
    await node.until(lambda: record.state is not None and bool(record.state.containers))


async def test_a_pod_with_users_of_its_own_waits_and_reports_the_reason(cluster: Cluster, node: TestNode) -> None:
    seen = await create(cluster, node, pod("p", hostUsers=False))
    await node.pass_time(2)
    seen = await cluster.pod("p")
    assert waiting(seen) == ("ContainerCreating", "")
    assert seen["status"]["phase"] == "Pending"
    why = "Failed to create pod sandbox: can't set `spec.hostUsers: false`, runtime does not support user namespaces"
    assert ("Warning", "FailedCreatePodSandBox", why) in await said(cluster)
    assert not node.machine.pods
    await cluster.client.delete(POD, "default", "p")
    await node.until(lambda: not node.agent.records)


async def test_a_sandbox_that_cannot_be_created_is_reported(cluster: Cluster, node: TestNode) -> None:
    node.runtime.fail_next("run_pod", OSError(errno.ENOSPC, "No space left on device"))
    await cluster.client.create(POD, pod("p"))
    await node.until(lambda: runs(cluster))
    why = "Failed to create pod sandbox: No space left on device"
    assert ("Warning", "FailedCreatePodSandBox", why) in await said(cluster)


# --- the disk is full -----------------------------------------------------------------------------------------------


def fill(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    monkeypatch.setattr("podfit.agent.pods.ledger.write_atomic", full)


async def test_a_new_pod_does_not_start_before_its_allocation_is_persisted(
    cluster: Cluster, node: TestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(node.agent.ledger, monkeypatch)
    uid = (await cluster.client.create(POD, pod("p")))["metadata"]["uid"]
    for _ in range(50):
        await asyncio.sleep(0)
    await cluster.clock.advance(5)
    assert uid not in node.machine.pods
    assert "No space left" in node.agent.ledger.problem
    why = "error making pod data directories: No space left on device"
    assert ("Warning", "FailedToMakePodDataDirectories", why) in await said(cluster)
    monkeypatch.undo()
    await node.until(lambda: runs(cluster))
    assert not node.agent.ledger.problem


async def test_a_full_disk_at_the_start_delays_the_start_and_nothing_else(
    cluster: Cluster, node: TestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    uid = (await create(cluster, node, pod("p")))["metadata"]["uid"]
    await node.stop()
    node.agent.ledger.path.unlink()
    node.runtime = type(node.runtime)(cluster.clock, node.machine)
    node.agent = node._agent()
    fill(node.agent.ledger, monkeypatch)
    node.up = True
    await node.agent.start()
    await cluster.clock.advance(20)
    assert not node.agent.synced.is_set()
    assert [listed.state for listed in node.machine.containers.values()] == [RUNNING]
    monkeypatch.undo()
    await cluster.clock.advance(40)
    await asyncio.wait_for(node.agent.synced.wait(), 5)
    await node.quiet()
    assert node.agent.ledger.allocated(uid) is not None
    assert [listed.config.attempt for listed in node.machine.containers.values()] == [0]


async def test_an_agent_with_a_full_disk_still_stops(
    cluster: Cluster, node: TestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(cluster, node, pod("p"))
    fill(node.agent.ledger, monkeypatch)
    await grow(cluster)
    await node.stop()
    monkeypatch.undo()
    await node.restart()
    await node.pass_time(5)
    status = (await cluster.pod("p"))["status"]["containerStatuses"][0]
    assert status["resources"]["limits"]["cpu"] == "400m"


# --- the ledger is damaged ------------------------------------------------------------------------------------------


def a_ledger(folder: Path) -> tuple[Path, bytes]:
    from podfit.api.resize.states import Allocated

    ledger = Ledger(folder / "ledger", durable=False)
    for number in range(3):
        ledger.allocate(f"uid-{number}", Allocated({"c": SMALL}))
        ledger.actuate(f"uid-{number}", "c", SMALL)
        ledger.flush_soon()
    ledger.close()
    return ledger.path, ledger.path.read_bytes()


def read_again(path: Path) -> tuple[bool, Ledger]:
    ledger = Ledger(path, durable=False)
    return ledger.load(), ledger


def test_every_flipped_bit_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, good = a_ledger(tmp_path)
    last = good.rstrip(b"\n").rfind(b"\n") + 1
    for at in range(len(good)):
        for bit in (0, 3, 7):
            bad = bytearray(good)
            bad[at] ^= 1 << bit
            path.write_bytes(bad)
            whole, ledger = read_again(path)
            ledger.close()
            if whole:
                # Only the very last line may be treated as incomplete.
                assert at == len(good) - 1 and len(path.read_bytes()) == last
            else:
                assert not ledger.uids()
                assert not path.exists(), "set aside"
    assert all(record.levelname in ("ERROR", "WARNING") for record in caplog.records)


def test_a_file_cut_off_anywhere_keeps_its_whole_lines(tmp_path: Path) -> None:
    path, good = a_ledger(tmp_path)
    header = good.index(b"\n") + 1
    for end in range(len(good)):
        path.write_bytes(good[:end])
        whole, ledger = read_again(path)
        assert whole == (end >= header)
        if whole:
            assert path.read_bytes() == good[: good.rfind(b"\n", 0, end) + 1]
        ledger.close()


def test_a_ledger_of_another_version_or_an_unreadable_one_is_set_aside(tmp_path: Path) -> None:
    path, good = a_ledger(tmp_path)
    path.write_bytes(_line({"version": 99}) + good.split(b"\n", 1)[1])
    assert read_again(path)[0] is False
    assert list(tmp_path.glob("ledger.corrupt-*"))
    path.mkdir()
    whole, ledger = read_again(path)
    assert not whole
    ledger.flush_soon()


async def test_any_damage_to_the_ledger_is_made_good_at_the_start(cluster: Cluster, node: TestNode) -> None:
    for name in ("p", "q"):
        await create(cluster, node, pod(name))
    await grow(cluster)
    await node.quiet()
    uids = [(await cluster.pod(name))["metadata"]["uid"] for name in ("p", "q")]
    before = {uid: node.agent.ledger.allocated(uid) for uid in uids}
    good = node.agent.ledger.path.read_bytes()
    for damage in (b"", good[: len(good) // 2], b"\0" * len(good), good[::-1], good[40:], _line({"version": 0}) + good):
        await node.stop()
        node.agent.ledger.path.write_bytes(damage)
        await node.restart()
        assert {uid: node.agent.ledger.allocated(uid) for uid in uids} == before
        assert [listed.config.attempt for listed in node.machine.containers.values()] == [0, 0]


# --- the API server is away -----------------------------------------------------------------------------------------


@asynccontextmanager
async def unreachable(node: TestNode) -> AsyncIterator[None]:
    """A server that is unreachable for requests and watches."""
    transport = node.agent.client.transport
    request, stream = transport.request, transport.stream

    async def refuse(*_: Any, **__: Any) -> Any:
        raise Unreachable("nobody answers")

    @asynccontextmanager
    async def cut(*_: Any, **__: Any) -> AsyncIterator[Any]:
        raise Unreachable("nobody answers")
        yield

    transport.request, transport.stream = refuse, cut  # type: ignore[method-assign]
    for task in [entry for entry in node.agent._tasks._tasks if entry.get_name() == "pods"]:
        task.cancel()
    node.agent._tasks.start(node.agent._cache.run(), "pods")
    try:
        yield
    finally:
        transport.request, transport.stream = request, stream  # type: ignore[method-assign]


async def pass_alone(node: TestNode, seconds: int) -> None:
    for _ in range(seconds):
        await node.cluster.clock.advance(1)
        for _ in range(30):
            await asyncio.sleep(0)


async def test_a_node_keeps_running_while_the_server_is_unavailable_for_minutes(
    cluster: Cluster, remote: TestNode
) -> None:
    await create(cluster, remote, pod("steady"))
    await create(cluster, remote, pod("weak", container("c", "sleep 30; exit 1")))
    await create(cluster, remote, pod("once", container("c", "sleep 40"), restartPolicy="Never"))
    async with unreachable(remote):
        await pass_alone(remote, 600)
        attempts = {
            owner.config.name: max(listed.config.attempt for listed in owner.containers.values())
            for owner in remote.machine.pods.values()
        }
        assert attempts["steady"] == 0 and attempts["once"] == 0
        assert attempts["weak"] >= 3, "restarted by policy, with nobody to tell"
        # Changes made while the connection was interrupted.
        await grow(cluster, "steady")
        await cluster.client.create(POD, pod("late"))
        await cluster.client.delete(POD, "default", "weak", {"gracePeriodSeconds": 0})
    await pass_alone(remote, 60)
    await remote.quiet()
    steady = (await cluster.pod("steady"))["status"]
    assert steady["containerStatuses"][0]["resources"]["limits"]["cpu"] == "400m"
    assert steady["containerStatuses"][0]["restartCount"] == 0
    assert (await cluster.pod("once"))["status"]["phase"] == "Succeeded"
    assert await runs(cluster, "late")
    assert "weak" not in {owner.config.name for owner in remote.machine.pods.values()}
    ready = {
        condition["type"]: condition["status"]
        for condition in (await cluster.client.get(NODE, "", "node1"))["status"]["conditions"]
    }
    assert ready["Ready"] == "True"


# --- the clock jumps ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump_s", [-7200.0, 7200.0], ids=["back", "forward"])
async def test_a_jump_of_the_clock_neither_stops_restarts_nor_ends_pods(
    cluster: Cluster, node: TestNode, jump_s: float
) -> None:
    probe = {"exec": {"command": ["true"]}, "initialDelaySeconds": 5, "periodSeconds": 5}
    await create(cluster, node, pod("weak", container("c", "sleep 5; exit 1")))
    await create(cluster, node, pod("timed", activeDeadlineSeconds=600))
    await create(cluster, node, pod("probed", container("c", readinessProbe=probe)))
    await node.pass_time(12)
    cluster.clock._now += jump_s
    attempts = max(listed.config.attempt for listed in node.machine.containers.values())
    await node.pass_time(60)
    assert max(listed.config.attempt for listed in node.machine.containers.values()) > attempts
    assert await runs(cluster, "timed"), "its ten minutes are not over"
    assert (await cluster.pod("probed"))["status"]["containerStatuses"][0]["ready"]
    await node.pass_time(600, 10)
    assert (await cluster.pod("timed"))["status"]["reason"] == "DeadlineExceeded"
    assert await runs(cluster, "probed")
    await grow(cluster, "probed")
    await node.pass_time(2)
    status = (await cluster.pod("probed"))["status"]["containerStatuses"][0]
    assert status["resources"]["limits"]["cpu"] == "400m"


# --- the watch is odd -----------------------------------------------------------------------------------------------


async def test_duplicate_and_late_events_change_nothing(cluster: Cluster, node: TestNode) -> None:
    tape: list[tuple[Any, Any]] = []
    node.agent._cache.subscribe(lambda before, after: tape.append(copy.deepcopy((before, after))))
    await create(cluster, node, pod("p"))
    await grow(cluster)
    await node.pass_time(2)
    end = (await cluster.pod("p"))["status"]
    machine = copy.deepcopy(node.machine.pods[(await cluster.pod("p"))["metadata"]["uid"]].limits)
    for before, after in [*tape, *reversed(tape), *tape[::2], *tape]:
        node.agent.roster.changed(before, after)
        await asyncio.sleep(0)
    await node.pass_time(5)
    after_all = await cluster.pod("p")
    assert after_all["status"] == end
    assert node.machine.pods[after_all["metadata"]["uid"]].limits == machine
    assert [listed.config.attempt for listed in node.machine.containers.values()] == [0]
    assert len([event for event in await cluster.events() if event["reason"] == "ResizeStarted"]) == 1


async def test_a_deleted_pod_is_not_brought_back_by_a_late_event(cluster: Cluster, node: TestNode) -> None:
    await create(cluster, node, pod("p"))
    seen = await cluster.pod("p")
    await cluster.client.delete(POD, "default", "p")
    await node.pass_time(10)
    assert not node.machine.pods
    node.agent.roster.changed(None, seen)
    await node.pass_time(2)
    assert not node.machine.pods and not node.agent.records


async def test_a_pod_of_the_same_name_replaces_the_old_one_unseen(cluster: Cluster, remote: TestNode) -> None:
    """A watch that was interrupted shows another UID under the same name, without a deletion in between."""
    await create(cluster, remote, pod("p"))
    old = await cluster.pod("p")
    async with unreachable(remote):
        await cluster.client.delete(POD, "default", "p", {"gracePeriodSeconds": 0})
        await cluster.client.create(POD, pod("p"))
        remote.agent._cache._revision = ""
        await pass_alone(remote, 2)
    await pass_alone(remote, 30)
    await remote.quiet()
    new = await cluster.pod("p")
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert list(remote.machine.pods) == [new["metadata"]["uid"]]
    assert await runs(cluster)


async def test_a_watch_from_a_forgotten_revision_lists_again(cluster: Cluster, remote: TestNode) -> None:
    await create(cluster, remote, pod("p"))
    async with unreachable(remote):
        await grow(cluster)
        await cluster.client.create(POD, pod("q"))
        await cluster.server.config.store.compact(cluster.server.config.store.revision)
        remote.agent._cache._revision = "1"
    await pass_alone(remote, 30)
    await remote.quiet()
    status = (await cluster.pod("p"))["status"]["containerStatuses"][0]
    assert status["resources"]["limits"]["cpu"] == "400m"
    assert await runs(cluster, "q")


# --- the sandbox is lost --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "phase"), [("Always", "Running"), ("OnFailure", "Running"), ("Never", "Failed")])
async def test_a_pod_whose_sandbox_died_follows_its_restart_policy(
    cluster: Cluster, node: TestNode, policy: str, phase: str
) -> None:
    uid = (await create(cluster, node, pod("p", restartPolicy=policy)))["metadata"]["uid"]
    await grow(cluster)
    await node.quiet()
    await node.runtime.stop_pod(uid)
    node.agent.enqueue(uid)
    await node.pass_time(30)
    status = (await cluster.pod("p"))["status"]
    assert status["phase"] == phase
    if phase == "Running":
        assert status["containerStatuses"][0]["restartCount"] == 1
        assert node.machine.pods[uid].limits.cpu_quota_us == 40_000
        assert status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 137
