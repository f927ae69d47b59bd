"""pods/migrate: who may move a VM pod and where, in which steps, and which writes of others have no effect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker, serving

from podfit.api.pods.migrations import ANNOTATION, FAILED, MOVED, OFFERED, PREPARED, REQUESTED
from podfit.apiserver.request import User

PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def as_node(name: str) -> User:
    return User(f"system:node:{name}", ("system:nodes", "system:authenticated"))


def node(name: str, ready: bool = True, cpu: str = "4", handlers: tuple[str, ...] = ("vm",)) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "4Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "runtimeHandlers": [{"name": handler} for handler in handlers],
        },
    }


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    async with serving(tmp_path) as server:
        asker = Asker(server)
        await asker("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        runtime = {"metadata": {"name": "vm"}, "handler": "vm", "overhead": {"podFixed": {"memory": "160Mi"}}}
        await asker("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime)
        nodes = [
            node("one"),
            node("two"),
            node("away", ready=False),
            node("small", cpu="1"),
            node("plain", handlers=()),
        ]
        for each in nodes:
            name, status = each["metadata"]["name"], each["status"]
            await asker("POST", "/api/v1/nodes", {"metadata": {"name": name}})
            code, _ = await asker("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, MERGE)
            assert code == 200
            # A new node is not ready until a controller has processed it.
            await asker("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, MERGE)
        yield asker


async def running(ask: Asker, name: str = "p", runtime_class: str | None = "vm") -> None:
    size = {"cpu": "2", "memory": "256Mi"}
    container = {"name": "vm", "image": "i", "resources": {"requests": size, "limits": size}}
    spec: dict[str, Any] = {"containers": [container], "nodeName": "one"}
    if runtime_class:
        spec["runtimeClassName"] = runtime_class
    code, made = await ask("POST", PODS, {"metadata": {"name": name}, "spec": spec})
    assert code == 201, made
    code, _ = await ask("PATCH", f"{PODS}/{name}/status", {"status": {"phase": "Running"}}, MERGE)
    assert code == 200


async def migrate(ask: Asker, target: str, name: str = "p") -> tuple[int, Any]:
    binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": target}}
    return await ask("POST", f"{PODS}/{name}/migrate", binding)


async def step(ask: Asker, node: str, phase: str, **more: Any) -> tuple[int, Any]:
    text = json.dumps({"phase": phase, **more})
    binding = {"metadata": {"name": "p", "annotations": {ANNOTATION: text}}, "target": {"name": "two"}}
    return await ask("POST", f"{PODS}/p/migrate", binding, user=as_node(node))


async def state(ask: Asker) -> dict[str, Any]:
    _, pod = await ask("GET", f"{PODS}/p")
    found: dict[str, Any] = json.loads(pod["metadata"]["annotations"][ANNOTATION])
    return found


async def test_a_pod_gets_its_other_node_when_the_target_reports_that_it_runs_there(ask: Asker) -> None:
    await running(ask)
    assert (await migrate(ask, "two"))[0] == 201
    _, pod = await ask("GET", f"{PODS}/p")
    assert (pod["spec"]["nodeName"], pod["status"]["nominatedNodeName"]) == ("one", "two")
    uid = pod["metadata"]["uid"]
    for node_name, phase, more in (
        ("one", OFFERED, {"offer": {"id": "x"}}),
        ("two", PREPARED, {"place": {"uri": "y"}}),
        ("two", MOVED, {}),
    ):
        code, answer = await step(ask, node_name, phase, **more)
        assert code == 201, answer
    _, pod = await ask("GET", f"{PODS}/p")
    assert (pod["spec"]["nodeName"], pod["metadata"]["uid"]) == ("two", uid)
    assert "nominatedNodeName" not in pod["status"]
    condition = next(known for known in pod["status"]["conditions"] if known["type"] == "podfit.dev/Migrating")
    assert (condition["status"], condition["reason"]) == ("False", MOVED)


@pytest.mark.parametrize(
    ("target", "code", "why"),
    [
        ("nowhere", 422, "target.name: Not found"),
        ("one", 409, 'runs on node "one" already'),
        ("away", 409, 'node "away" is not ready'),
        ("small", 409, "not enough cpu"),
        ("plain", 409, 'no runtime for the handler "vm"'),
    ],
)
async def test_a_target_that_cannot_take_the_pod_is_refused(ask: Asker, target: str, code: int, why: str) -> None:
    await running(ask)
    got, answer = await migrate(ask, target)
    assert (got, why in answer["message"]) == (code, True), answer
    _, pod = await ask("GET", f"{PODS}/p")
    assert ANNOTATION not in (pod["metadata"].get("annotations") or {})


async def test_a_pod_of_containers_stays(ask: Asker) -> None:
    await running(ask, runtime_class=None)
    code, answer = await migrate(ask, "two")
    assert code == 409 and "is not a virtual machine" in answer["message"]


async def test_a_migrating_pod_counts_on_both_nodes_and_cannot_be_migrated_twice(ask: Asker) -> None:
    await running(ask)
    await running(ask, "q")
    await running(ask, "r")
    assert (await migrate(ask, "two"))[0] == 201
    code, answer = await migrate(ask, "two")
    assert code == 409 and "already" in answer["message"]
    assert (await migrate(ask, "two", "q"))[0] == 201
    code, answer = await migrate(ask, "two", "r")
    assert code == 409 and "not enough cpu" in answer["message"]


async def test_a_pod_in_the_middle_of_a_resize_is_refused(ask: Asker) -> None:
    await running(ask)
    condition = {"type": "PodResizeInProgress", "status": "True"}
    await ask("PATCH", f"{PODS}/p/status", {"status": {"conditions": [condition]}}, STRATEGIC)
    code, answer = await migrate(ask, "two")
    assert code == 409 and "is being resized" in answer["message"]


async def test_nodes_report_only_what_is_theirs_to_report(ask: Asker) -> None:
    await running(ask)
    await migrate(ask, "two")
    for node_name, phase in (("two", OFFERED), ("one", PREPARED), ("two", MOVED), ("small", FAILED), ("one", MOVED)):
        code, _ = await step(ask, node_name, phase)
        assert code == 409, (node_name, phase)
    assert (await state(ask))["phase"] == REQUESTED
    await step(ask, "one", OFFERED, offer={"id": "x"})
    await step(ask, "two", PREPARED, place={"uri": "y"})
    code, _ = await step(ask, "two", FAILED)
    assert code == 409, "once a place is prepared, the source decides"
    code, _ = await step(ask, "one", FAILED, message="libvirt is gone")
    assert code == 201
    assert (await step(ask, "two", MOVED))[0] == 409
    found = await state(ask)
    assert (found["phase"], found["message"]) == (FAILED, "libvirt is gone")
    assert (await migrate(ask, "two"))[0] == 201, "it may be tried again"


async def test_writes_of_others_leave_the_migration_as_it_is(ask: Asker) -> None:
    await running(ask)
    await migrate(ask, "two")
    _, pod = await ask("GET", f"{PODS}/p")
    pod["metadata"].pop("annotations")
    code, after = await ask("PUT", f"{PODS}/p", pod)
    assert code == 200 and ANNOTATION in after["metadata"]["annotations"]
    forged = {"metadata": {"annotations": {ANNOTATION: '{"phase":"Moved","source":"one","target":"two"}', "a": "b"}}}
    _, after = await ask("PATCH", f"{PODS}/p", forged, MERGE)
    assert after["metadata"]["annotations"]["a"] == "b"
    assert (await state(ask))["phase"] == REQUESTED
    _, after = await ask("PATCH", f"{PODS}/p/status", {"status": {"nominatedNodeName": None}}, MERGE)
    assert after["status"]["nominatedNodeName"] == "two"
    copy = {"metadata": {"name": "copy", **forged["metadata"]}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    _, made = await ask("POST", PODS, copy)
    assert ANNOTATION not in (made["metadata"].get("annotations") or {})


async def test_the_target_node_sees_the_pod_and_other_nodes_do_not(ask: Asker) -> None:
    await running(ask)
    await migrate(ask, "two")
    selector = "status.nominatedNodeName=two"
    code, found = await ask("GET", "/api/v1/pods", user=as_node("two"), fieldSelector=selector)
    assert code == 200 and [item["metadata"]["name"] for item in found["items"]] == ["p"]
    assert (await ask("GET", "/api/v1/pods", user=as_node("small"), fieldSelector=selector))[0] == 403
    async with asyncio.timeout(60):
        # The authorizer follows the store's log, one iteration of the event loop behind.
        while (await ask("GET", f"{PODS}/p", user=as_node("two")))[0] != 200:
            await asyncio.sleep(0)
    assert (await ask("GET", f"{PODS}/p", user=as_node("small")))[0] == 403
