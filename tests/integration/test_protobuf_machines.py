"""Virtual machines and clients that speak protobuf, which has no field for them: nothing is lost silently."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.servers.protobufs import read_event

from podfit.api.protobuf import machines, to_json
from podfit.api.protobuf.writing import from_json
from podfit.apiserver.app import ApiServer
from podfit.apiserver.config import Config
from podfit.apiserver.protobufs.form import frames_of
from podfit.apiserver.request import ADMIN, Request, Response
from podfit.store.memory import MemoryStore

PROTOBUF = "application/vnd.kubernetes.protobuf"
PODS, APPS = "/api/v1/namespaces/default/pods", "/apis/apps/v1/namespaces/default"
SIZE = {"requests": {"cpu": "1", "memory": "512Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
MACHINE = {
    "name": "guest",
    "image": "debian:12",
    "publicKey": "ssh-ed25519 AAAA",
    "resources": SIZE,
    "powerSpec": "Paused",
    "cloudInitUserDataScript": "echo ü",
}
LABELS = {"app": "guest"}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    made = ApiServer(Config(MemoryStore(), tmp_path / "data"))
    await made.start()
    await ask(made, "POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    body = {"metadata": {"name": "p", "annotations": {"mine": "1"}}, "spec": {"virtualMachine": MACHINE}}
    assert (await ask(made, "POST", PODS, body))["kind"] == "Pod"
    yield made
    await made.stop()


async def call(server: ApiServer, method: str, path: str, body: bytes = b"", **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await server.handle(Request(method, path, {}, named, body, ADMIN))


async def ask(server: ApiServer, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
    raw = b"" if body is None else json.dumps(body).encode()
    return json.loads((await call(server, method, path, raw, content_type=kind)).body)


async def read(server: ApiServer, path: str) -> bytes:
    """The pod that a client of Kubernetes gets; all its fields are known to the client, so it would send them
    all back.
    """
    answer = await call(server, "GET", path, accept=PROTOBUF)
    assert (answer.status, answer.content_type) == (200, PROTOBUF)
    return bytes(answer.body)


async def write(server: ApiServer, method: str, path: str, body: bytes) -> tuple[int, Any]:
    answer = await call(server, method, path, body, content_type=PROTOBUF, accept="application/json")
    return answer.status, json.loads(answer.body)


@pytest.fixture
def as_kubernetes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reads protobuf as a program of Kubernetes does, without interpreting the annotation."""

    def decoded(body: bytes) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(machines, "CARRIERS", frozenset[str]())
            return json.loads(to_json(body))

    return decoded


async def test_a_pod_that_a_client_writes_back_in_protobuf_keeps_its_virtual_machine(server: ApiServer) -> None:
    before = await ask(server, "GET", f"{PODS}/p")
    for path in (f"{PODS}/p", f"{PODS}/p/status", f"{PODS}/p/resize"):
        code, after = await write(server, "PUT", path, await read(server, f"{PODS}/p"))
        assert code == 200, after
        assert after["spec"] == before["spec"]
        assert after["metadata"]["annotations"] == {"mine": "1"}, "the annotation is never stored"


async def test_a_client_of_protobuf_resizes_and_reports_a_virtual_machine(
    server: ApiServer, as_kubernetes: Any
) -> None:
    pod = as_kubernetes(await read(server, f"{PODS}/p"))
    assert "virtualMachine" not in pod["spec"]
    assert json.loads(pod["metadata"]["annotations"][machines.ANNOTATION])["powerSpec"] == "Paused"
    larger = {"requests": SIZE["requests"], "limits": {"cpu": "4", "memory": "2Gi"}}
    pod["spec"]["containers"][0]["resources"] = larger
    code, after = await write(server, "PUT", f"{PODS}/p/resize", from_json(json.dumps(pod).encode()))
    assert code == 200, after
    assert after["spec"]["virtualMachine"]["resources"] == larger

    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    status = {"name": "guest", "state": state, "ready": True, "image": "i", "imageID": "i", "restartCount": 0}
    patch = {"status": {"phase": "Running", "containerStatuses": [{**status, "resources": larger}]}}
    await ask(server, "PATCH", f"{PODS}/p/status", patch, "application/strategic-merge-patch+json")
    code, after = await write(server, "PUT", f"{PODS}/p/status", await read(server, f"{PODS}/p"))
    assert code == 200, after
    shown = after["status"]["virtualMachineStatus"]
    assert (shown["state"], shown["powerState"], shown["resources"]) == ("active", "running", larger)


async def test_a_controller_of_protobuf_makes_replica_sets_and_pods_of_a_virtual_machine(
    server: ApiServer, as_kubernetes: Any
) -> None:
    template = {"metadata": {"labels": LABELS}, "spec": {"virtualMachine": MACHINE}}
    spec = {"selector": {"matchLabels": LABELS}, "template": template}
    made = await ask(server, "POST", f"{APPS}/deployments", {"metadata": {"name": "d"}, "spec": spec})
    deployment = as_kubernetes(await read(server, f"{APPS}/deployments/d"))
    rs = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "d-1"}}
    body = {**rs, "spec": {"selector": spec["selector"], "template": deployment["spec"]["template"]}}
    code, stored = await write(server, "POST", f"{APPS}/replicasets", from_json(json.dumps(body).encode()))
    assert code == 201, stored
    assert stored["spec"]["template"] == made["spec"]["template"]
    copied = as_kubernetes(await read(server, f"{APPS}/replicasets/d-1"))["spec"]["template"]
    assert copied == deployment["spec"]["template"], "a controller compares the two"

    pod = {"apiVersion": "v1", "kind": "Pod", **copied, "metadata": {**copied["metadata"], "name": "d-1-x"}}
    code, after = await write(server, "POST", PODS, from_json(json.dumps(pod).encode()))
    assert code == 201, after
    assert {**after["spec"]["virtualMachine"], "resourcesAllocated": None} == {
        **stored["spec"]["template"]["spec"]["virtualMachine"],
        "resourcesAllocated": None,
    }
    assert "annotations" not in after["metadata"]


async def test_lists_and_watches_in_protobuf_carry_the_virtual_machine(server: ApiServer) -> None:
    assert machines.ANNOTATION.encode() in await read(server, PODS)
    request = Request("GET", PODS, {"watch": ["true"]}, {"accept": f"{PROTOBUF};stream=watch"}, b"", ADMIN)
    stream = (await server.handle(request)).stream
    assert stream is not None
    async for piece in stream:
        word, pod = read_event(next(frames_of(piece)))
        assert (word, pod["spec"]["virtualMachine"]["powerSpec"]) == ("ADDED", "Paused")
        break


async def test_a_virtual_machine_that_a_client_drops_or_spoils_is_refused(
    server: ApiServer, as_kubernetes: Any
) -> None:
    pod = as_kubernetes(await read(server, f"{PODS}/p"))
    del pod["metadata"]["annotations"][machines.ANNOTATION]
    code, why = await write(server, "PUT", f"{PODS}/p", from_json(json.dumps(pod).encode()))
    assert code == 422 and "spec.virtualMachine: Forbidden" in why["message"]
    pod["metadata"]["annotations"][machines.ANNOTATION] = "[]"
    code, why = await write(server, "PUT", f"{PODS}/p", from_json(json.dumps(pod).encode()))
    assert code == 400 and machines.ANNOTATION in why["message"]
