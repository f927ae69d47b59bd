"""Responses in protobuf have the same content as those in JSON."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.servers.protobufs import read_body, read_event

from podfit.api.protobuf.writing import Message, message_of
from podfit.api.status import ApiError
from podfit.apiserver.app import ApiServer
from podfit.apiserver.config import Config
from podfit.apiserver.protobufs.form import error_frame, frames_of
from podfit.apiserver.request import ADMIN, Request, Response
from podfit.store.memory import MemoryStore

PROTOBUF = "application/vnd.kubernetes.protobuf"
CLIENT_GO = f"{PROTOBUF},application/json"
PODS = "/api/v1/namespaces/default/pods"
_PARTIAL = ";as={};g=meta.k8s.io;v=v1"
_BINDING = {"metadata": {"name": "q"}, "target": {"kind": "Node", "name": "n"}}
_SPEC = {"containers": [{"name": "c", "image": "x", "ports": [{"containerPort": 80}]}], "schedulerName": "none"}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    made = ApiServer(Config(MemoryStore(), tmp_path / "data"))
    await made.start()
    await send(made, "POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    for name in ("p", "q"):
        assert (await send(made, "POST", PODS, {"metadata": {"name": name}, "spec": _SPEC})).status == 201
    yield made
    await made.stop()


async def send(server: ApiServer, method: str, path: str, body: Any = None, accept: str = "", **query: str) -> Response:
    headers = {"content-type": "application/json"} | ({"accept": accept} if accept else {})
    raw = b"" if body is None else json.dumps(body).encode()
    return await server.handle(Request(method, path, {key: [query[key]] for key in query}, headers, raw, ADMIN))


def without_nothing(value: Any) -> Any:
    """Protobuf does not distinguish an empty field from an absent one."""
    if isinstance(value, dict):
        kept = {key: without_nothing(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in (None, {}, [])}
    return [without_nothing(inner) for inner in value] if isinstance(value, list) else value


async def assert_alike(server: ApiServer, path: str, accept: str = "", **query: str) -> None:
    in_json = await send(server, "GET", path, None, f"application/json{accept}", **query)
    compact = await send(server, "GET", path, None, f"{PROTOBUF}{accept},application/json", **query)
    assert (compact.status, compact.content_type) == (in_json.status, PROTOBUF)
    assert without_nothing(read_body(compact.body)) == without_nothing(json.loads(in_json.body))


@pytest.mark.parametrize(
    "path",
    [
        f"{PODS}/p",
        PODS,
        f"{PODS}/nobody",
        f"{PODS}/p/status",
        "/api/v1/nodes",
        "/api/v1/services",
        "/apis/events.k8s.io/v1/events",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        "/apis/apiregistration.k8s.io/v1/apiservices",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/apps/v1/nothing",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
    ],
)
async def test_an_answer_is_the_same_in_protobuf(server: ApiServer, path: str) -> None:
    await assert_alike(server, path)


@pytest.mark.parametrize(
    ("path", "shape"), [(f"{PODS}/p", "PartialObjectMetadata"), (PODS, "PartialObjectMetadataList")]
)
async def test_metadata_alone_is_the_same_in_protobuf(server: ApiServer, path: str, shape: str) -> None:
    in_json = json.loads((await send(server, "GET", path, None, "application/json" + _PARTIAL.format(shape))).body)
    compact = read_body((await send(server, "GET", path, None, PROTOBUF + _PARTIAL.format(shape))).body)
    for item in in_json.get("items", ()):
        del item["kind"], item["apiVersion"]
    assert without_nothing(compact) == without_nothing(in_json)


async def test_a_page_of_a_list_has_its_token(server: ApiServer) -> None:
    compact = await send(server, "GET", PODS, None, CLIENT_GO, limit="1")
    meta = read_body(compact.body)["metadata"]
    assert meta["remainingItemCount"] == 1
    assert meta["continue"]


async def test_tables_are_never_protobuf(server: ApiServer) -> None:
    table = _PARTIAL.format("Table")
    answer = await send(server, "GET", PODS, None, f"{PROTOBUF}{table},application/json{table}")
    assert (answer.content_type, json.loads(answer.body)["kind"]) == ("application/json", "Table")
    refused = await send(server, "GET", PODS, None, f"{PROTOBUF}{table}")
    assert refused.status == 406


async def test_a_client_that_likes_json_better_gets_it(server: ApiServer) -> None:
    answer = await send(server, "GET", PODS, None, f"{PROTOBUF};q=0.5,application/json")
    assert answer.content_type == "application/json"


async def test_writes_are_answered_in_protobuf(server: ApiServer) -> None:
    made = await send(server, "POST", PODS, {"metadata": {"name": "r"}, "spec": _SPEC}, CLIENT_GO)
    assert (made.status, read_body(made.body)["metadata"]["name"]) == (201, "r")
    refused = await send(server, "POST", PODS, {"metadata": {"name": "r"}, "spec": _SPEC}, CLIENT_GO)
    assert (refused.status, read_body(refused.body)["reason"]) == (409, "AlreadyExists")
    evicted = await send(server, "POST", f"{PODS}/r/eviction", {"metadata": {"name": "r"}}, CLIENT_GO)
    assert (evicted.status, read_body(evicted.body)["status"]) == (201, "Success")
    bound = await send(server, "POST", f"{PODS}/q/binding", _BINDING, CLIENT_GO)
    assert (bound.status, read_body(bound.body)["status"]) == (201, "Success")
    gone = await send(server, "DELETE", f"{PODS}/p", None, CLIENT_GO, gracePeriodSeconds="0")
    assert (gone.status, read_body(gone.body)["metadata"]["name"]) == (200, "p")


async def test_a_scale_and_a_token_come_in_protobuf(server: ApiServer) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "replicas": 0, "template": template}
    made = await send(
        server, "POST", "/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "d"}, "spec": spec}
    )
    assert made.status == 201
    await assert_alike(server, "/apis/apps/v1/namespaces/default/deployments/d/scale")
    token = await send(
        server, "POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}}, CLIENT_GO
    )
    assert read_body(token.body)["status"]["token"]


async def test_a_watch_is_a_stream_of_frames(server: ApiServer) -> None:
    answer = await send(
        server,
        "GET",
        PODS,
        None,
        CLIENT_GO,
        watch="true",
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    assert answer.content_type == f"{PROTOBUF};stream=watch"
    assert answer.stream is not None
    events: list[tuple[str, Any]] = []
    deleted = False
    async for piece in answer.stream:
        events += [read_event(frame) for frame in frames_of(piece)]
        if events[-1][0] == "BOOKMARK" and not deleted:
            deleted = True
            await send(server, "DELETE", f"{PODS}/q", None, gracePeriodSeconds="0")
        if events[-1][0] == "DELETED":
            break
    words = [word for word, _ in events]
    assert words == ["ADDED", "ADDED", "BOOKMARK", "MODIFIED", "DELETED"]
    assert events[2][1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    gone = events[4][1]
    assert (gone["kind"], gone["metadata"]["name"]) == ("Pod", "q")
    assert int(gone["metadata"]["resourceVersion"]) > int(events[1][1]["metadata"]["resourceVersion"])


def test_an_error_in_a_watch_is_a_status() -> None:
    (frame,) = frames_of(error_frame(ApiError(410, "Expired", "too old resource version: 1 (2)")))
    word, status = read_event(frame)
    assert (word, status["kind"], status["code"], status["reason"]) == ("ERROR", "Status", 410, "Expired")


async def test_a_custom_resource_is_never_protobuf_but_its_metadata_may_be(server: ApiServer) -> None:
    path = "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers"
    assert (await send(server, "GET", path, None, CLIENT_GO)).content_type == "application/json"
    assert (await send(server, "GET", path, None, PROTOBUF)).status == 406
    partial = await send(server, "GET", path, None, PROTOBUF + _PARTIAL.format("PartialObjectMetadataList"))
    assert read_body(partial.body)["kind"] == "PartialObjectMetadataList"


async def test_yaml_cannot_be_watched(server: ApiServer) -> None:
    answer = await send(server, "GET", PODS, None, "application/yaml", watch="true")
    assert (answer.status, answer.content_type) == (406, "application/yaml")


async def test_a_revision_is_encoded_once_for_its_response_its_readers_and_its_watchers(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, pods, count = Message.of, message_of("v1", "Pod"), 0

    def counting(message: Message, body: bytes) -> bytes:
        nonlocal count
        count += message is pods
        return encode(message, body)

    pod = json.loads((await send(server, "GET", f"{PODS}/q")).body)
    revision = pod["metadata"]["resourceVersion"]
    watch = await send(server, "GET", PODS, None, CLIENT_GO, watch="true", resourceVersion=revision)
    assert watch.stream is not None
    monkeypatch.setattr(Message, "of", counting)
    pod["status"]["message"] = "changed"
    answer = await send(server, "PUT", f"{PODS}/q/status", pod, CLIENT_GO)
    event = await anext(aiter(watch.stream))
    again = await send(server, "GET", f"{PODS}/q", None, CLIENT_GO)
    assert read_event(next(frames_of(event)))[1] == read_body(answer.body) == read_body(again.body)
    assert count == 1
