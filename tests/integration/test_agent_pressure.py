"""A node reports pressure at once, and clears the condition after five minutes without pressure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.agent.decide.node.pressure import Readings
from podfit.agent.node.pressure import PressureWatch
from podfit.api.registry.kinds import NODE, POD
from podfit.client.transport import Unreachable

CALM, SHORT = Readings(memory_free=1 << 30), Readings(memory_free=1 << 20)


class Machine:
    """A machine with the configured readings."""

    def __init__(self) -> None:
        self.now = CALM

    def __call__(self) -> Readings:
        return self.now


async def memory(cluster: Cluster) -> dict[str, Any]:
    shown = (await cluster.client.get(NODE, "", "node1"))["status"]["conditions"]
    return next(condition for condition in shown if condition["type"] == "MemoryPressure")


def watch(node: TestNode, machine: Machine) -> PressureWatch:
    return PressureWatch(node.agent.node, node.cluster.clock, machine)


async def test_a_pressure_is_reported_at_once_and_ends_after_five_minutes(cluster: Cluster) -> None:
    node, machine = await cluster.node(), Machine()
    looking = watch(node, machine)
    await looking.check()
    calm = await memory(cluster)
    assert (calm["status"], calm["reason"]) == ("False", "KubeletHasSufficientMemory")
    await node.pass_time(5)
    machine.now = SHORT
    await looking.check()
    short = await memory(cluster)
    assert (short["status"], short["reason"]) == ("True", "KubeletHasInsufficientMemory")
    assert short["lastTransitionTime"] > calm["lastTransitionTime"]
    machine.now = CALM
    await node.pass_time(299, 100)
    await looking.check()
    assert (await memory(cluster))["status"] == "True"
    await node.pass_time(1)
    await looking.check()
    assert (await memory(cluster))["status"] == "False"


async def test_readings_that_change_nothing_are_not_sent(cluster: Cluster) -> None:
    node, machine = await cluster.node(), Machine()
    looking = watch(node, machine)
    machine.now = SHORT
    await looking.check()
    revision = (await cluster.client.get(NODE, "", "node1"))["metadata"]["resourceVersion"]
    for _ in range(3):
        await looking.check()
    assert (await cluster.client.get(NODE, "", "node1"))["metadata"]["resourceVersion"] == revision


async def test_a_pressure_that_could_not_be_reported_is_reported_with_the_next_reading(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, machine = await cluster.node(), Machine()
    looking = watch(node, machine)
    machine.now = SHORT

    async def away(*_: Any, **__: Any) -> Any:
        raise Unreachable("away")

    with monkeypatch.context() as patched:
        patched.setattr(cluster.native, "patch", away)
        await looking.check()
    assert (await memory(cluster))["status"] == "False"
    await looking.check()
    assert (await memory(cluster))["status"] == "True"


async def test_simulated_nodes_do_not_read_the_machine(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []
    monkeypatch.setattr("podfit.agent.agent.machine_readings", lambda folder, ledger: asked.append(folder) or SHORT)
    node = await cluster.node()
    await node.pass_time(60, 10)
    assert not asked
    monkeypatch.setattr(type(node.runtime), "in_memory", False)
    await node.restart()
    assert asked and (await memory(cluster))["status"] == "True"


# --- pods have to leave ---------------------------------------------------------------------------------------------

MI = 1 << 20


def hungry(name: str, memory: int, request: str = "", **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"memory": request}} if request else {}
    body = {
        "nodeName": "node1",
        "automountServiceAccountToken": False,
        "containers": [{"name": "c", "image": "busybox:1", "command": ["serve"], "resources": resources}],
        **spec,
    }
    meta = {"name": name, "namespace": "default", "annotations": {"podfit.dev/fake-memory": f"constant:{memory}"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body}


def reading(node: TestNode, machine: Machine) -> PressureWatch:
    """A monitor of this machine that evicts pods as the agent's own does."""
    return PressureWatch(node.agent.node, node.cluster.clock, machine, response=node.agent.pressure.response)


async def phases(cluster: Cluster) -> dict[str, str]:
    listed = (await cluster.client.list(POD, "default"))["items"]
    return {obj["metadata"]["name"]: obj["status"]["phase"] for obj in listed}


async def test_the_pod_furthest_above_its_request_is_ended_first_and_alone(cluster: Cluster) -> None:
    node, machine = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"}), Machine()
    for body in (hungry("small", 10 * MI, "64Mi"), hungry("large", 300 * MI, "64Mi"), hungry("other", 200 * MI)):
        await cluster.client.create(POD, body)
    await node.quiet()
    looking = reading(node, machine)
    machine.now = SHORT
    await looking.check()
    await looking.check()
    await node.pass_time(3)
    assert await phases(cluster) == {"small": "Running", "large": "Failed", "other": "Running"}
    status = (await cluster.pod("large"))["status"]
    message = (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 1Mi. "
        "Container c was using 300Mi, request is 64Mi, has larger consumption of memory. "
    )
    assert (status["reason"], status["message"]) == ("Evicted", message)
    reported = next(condition for condition in status["conditions"] if condition["type"] == "DisruptionTarget")
    assert (reported["status"], reported["reason"], reported["message"]) == ("True", "TerminationByKubelet", message)
    events = [(event["type"], event["reason"], event["message"]) for event in await cluster.events()]
    assert ("Warning", "Evicted", message) in events
    await looking.check()
    await node.pass_time(3)
    assert await phases(cluster) == {"small": "Running", "large": "Failed", "other": "Failed"}
    machine.now = CALM
    await looking.check()
    await node.pass_time(3)
    assert (await phases(cluster))["small"] == "Running"


async def test_critical_pods_are_spared(cluster: Cluster) -> None:
    node, machine = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"}), Machine()
    body = hungry("critical", 300 * MI, priorityClassName="system-node-critical")
    await cluster.namespace("kube-system")
    await cluster.client.create(POD, {**body, "metadata": {**body["metadata"], "namespace": "kube-system"}})
    await node.quiet()
    machine.now = SHORT
    await reading(node, machine).check()
    await node.pass_time(3)
    assert (await cluster.pod("critical", "kube-system"))["status"]["phase"] == "Running"


async def test_a_pod_without_requests_is_not_admitted_by_a_node_without_memory(cluster: Cluster) -> None:
    node, machine = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"}), Machine()
    machine.now = SHORT
    await reading(node, machine).check()
    await cluster.client.create(POD, hungry("greedy", MI))
    await cluster.client.create(POD, hungry("modest", MI, "64Mi"))
    await node.quiet()
    status = (await cluster.pod("greedy"))["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    assert status["message"] == "Pod was rejected: The node had condition: [MemoryPressure]. "
    assert (await cluster.pod("modest"))["status"]["phase"] == "Running"


async def test_a_resize_waits_while_the_node_is_short_of_disk(cluster: Cluster) -> None:
    node, machine = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"}), Machine()
    await cluster.client.create(POD, hungry("p", MI, "64Mi"))
    await cluster.client.create(POD, hungry("critical", MI, "64Mi", priorityClassName="system-node-critical"))
    await node.quiet()
    looking = reading(node, machine)
    machine.now = Readings(memory_free=1 << 30, unwritable=True)
    await looking.check()
    larger = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"memory": "80Mi"}}}]}}
    for name in ("p", "critical"):
        await cluster.resize(name, larger)
    await node.quiet()
    status = (await cluster.pod("critical"))["status"]
    assert status["containerStatuses"][0]["resources"]["requests"] == {"memory": "80Mi"}
    status = (await cluster.pod("p"))["status"]
    (pending,) = [condition for condition in status["conditions"] if condition["type"] == "PodResizePending"]
    assert (pending["reason"], pending["message"]) == ("Deferred", "The node had condition: [DiskPressure]. ")
    assert status["containerStatuses"][0]["allocatedResources"] == {"memory": "64Mi"}
    (reported,) = [event for event in await cluster.events() if event["reason"] == "ResizeDeferred"]
    assert reported["message"].startswith("Pod resize Evicted: {")

    machine.now = CALM
    await cluster.clock.advance(301)
    await looking.check()
    await node.quiet()
    status = (await cluster.pod("p"))["status"]
    assert status["containerStatuses"][0]["resources"]["requests"] == {"memory": "80Mi"}
    assert not [condition for condition in status["conditions"] if condition["type"].startswith("PodResize")]


# --- disks ----------------------------------------------------------------------------------------------------------

FULL = Readings(memory_free=1 << 30, disk_free=MI, disk_size=100 << 30)


def writer(name: str, limits: dict[str, str] | None = None, size_limit: str = "", **spec: Any) -> dict[str, Any]:
    body = hungry(
        name, MI, volumes=[{"name": "v", "emptyDir": {"sizeLimit": size_limit} if size_limit else {}}], **spec
    )
    body["spec"]["containers"][0] |= {
        "resources": {"limits": limits or {}},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    return body


async def writes(cluster: Cluster, node: TestNode, name: str, size: int) -> Path:
    """A file of that size in the pod's emptyDir."""
    uid = (await cluster.pod(name))["metadata"]["uid"]
    file = node.agent.volumes.folder(uid) / "volumes" / "v" / "file"
    file.write_bytes(bytes(size))
    return file


async def disk_pressure(cluster: Cluster) -> str:
    shown = (await cluster.client.get(NODE, "", "node1"))["status"]["conditions"]
    return str(next(condition for condition in shown if condition["type"] == "DiskPressure")["status"])


class FullWhile(Machine):
    """A disk that is full as long as a file is there."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self) -> Readings:
        return FULL if self.file.exists() else CALM


async def test_the_pod_with_most_on_a_full_disk_is_evicted_and_its_files_are_deleted(cluster: Cluster) -> None:
    node = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"}, on_disk=True)
    for name in ("small", "large"):
        await cluster.client.create(POD, writer(name))
    await node.quiet()
    await writes(cluster, node, "small", 64 << 10)
    file = await writes(cluster, node, "large", 3 * MI)
    looking = reading(node, FullWhile(file))
    await looking.check()
    await node.pass_time(3)
    assert await disk_pressure(cluster) == "True"
    status = (await cluster.pod("large"))["status"]
    message = "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 1Mi. "
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "Evicted", message)
    assert any(condition["type"] == "DisruptionTarget" for condition in status["conditions"])
    assert file.exists()
    await looking.check()
    await node.pass_time(3)
    assert not file.exists()
    assert await phases(cluster) == {"small": "Running", "large": "Failed"}


async def test_a_node_short_of_disk_deletes_old_logs_before_it_evicts(cluster: Cluster) -> None:
    node = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"}, on_disk=True)
    await cluster.client.create(POD, writer("p"))
    await node.quiet()
    record = node.agent.find("default", "p")
    assert record is not None
    logs = node.agent.maker.log_folder(record) / "c"
    logs.mkdir(parents=True, exist_ok=True)
    for name in ("0.log", "1.log", "2.log", "2.log.20260101-000000.000000000"):
        (logs / name).write_text("")
    await reading(node, FullWhile(logs / "2.log.20260101-000000.000000000")).check()
    await node.pass_time(3)
    assert sorted(path.name for path in logs.iterdir()) == ["1.log", "2.log"]
    assert await phases(cluster) == {"p": "Running"}


async def test_a_long_termination_message_counts_as_use_of_the_disk(cluster: Cluster) -> None:
    node = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"}, on_disk=True)
    await cluster.client.create(POD, writer("limited", {"ephemeral-storage": "1Mi"}))
    await node.quiet()
    record = node.agent.find("default", "limited")
    assert record is not None
    node.agent.maker.message_file(record, "c", 0).write_bytes(bytes(2 * MI))
    await reading(node, Machine()).check()
    await node.pass_time(3)
    assert (await cluster.pod("limited"))["status"]["reason"] == "Evicted"


async def test_no_pod_comes_onto_a_node_short_of_disk(cluster: Cluster) -> None:
    node, machine = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"}, on_disk=True), Machine()
    machine.now = FULL
    await reading(node, machine).check()
    await cluster.client.create(POD, writer("late"))
    await node.quiet()
    status = (await cluster.pod("late"))["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
    assert status["message"] == "Pod was rejected: The node had condition: [DiskPressure]. "


@pytest.mark.parametrize(
    ("limits", "size_limit", "message"),
    [
        ({}, "1Mi", 'Usage of EmptyDir volume "v" exceeds the limit "1Mi". '),
        (
            {"ephemeral-storage": "1Mi"},
            "",
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
        ),
    ],
)
async def test_a_pod_that_exceeds_its_limit_of_disk_is_evicted(
    cluster: Cluster, limits: dict[str, str], size_limit: str, message: str
) -> None:
    node, machine = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"}, on_disk=True), Machine()
    await cluster.client.create(POD, writer("limited", limits, size_limit))
    await cluster.client.create(POD, writer("free"))
    await node.quiet()
    await writes(cluster, node, "limited", MI // 2)
    await writes(cluster, node, "free", 2 * MI)
    looking = reading(node, machine)
    await looking.check()
    await node.pass_time(3)
    assert await phases(cluster) == {"limited": "Running", "free": "Running"}
    await writes(cluster, node, "limited", 2 * MI)
    await looking.check()
    await node.pass_time(3)
    assert await phases(cluster) == {"limited": "Failed", "free": "Running"}
    status = (await cluster.pod("limited"))["status"]
    assert (status["reason"], status["message"]) == ("Evicted", message)
    assert not any(condition["type"] == "DisruptionTarget" for condition in status["conditions"])
    assert await disk_pressure(cluster) == "False"
