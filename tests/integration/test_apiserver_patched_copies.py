"""Stored objects share parts with patched ones: a patch does not change them, and metadata is served without the rest.

Patches of status and size share the unchanged parts with the stored object.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker, serving

from podfit.api.registry.kinds import POD
from podfit.apiserver.app import ApiServer
from podfit.apiserver.representation import wire
from podfit.apiserver.request import ADMIN, Request

PODS = "/api/v1/namespaces/default/pods"
STRATEGIC, MERGE, JSON = (f"application/{word}+json" for word in ("strategic-merge-patch", "merge-patch", "json-patch"))
SIZE = {"requests": {"memory": "32Mi"}, "limits": {"memory": "64Mi"}}


def sized(**resources: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "resources": resources}]}}


PATCHES = [
    pytest.param("resize", STRATEGIC, sized(limits={"memory": "96Mi"}), id="a limit"),
    pytest.param("resize", STRATEGIC, sized(requests={"memory": "48Mi"}), id="a request"),
    pytest.param("resize", STRATEGIC, sized(limits={"cpu": "1"}), id="a limit that makes a request"),
    pytest.param("resize", STRATEGIC, {"spec": None}, id="no spec"),
    pytest.param("resize", STRATEGIC, {"metadata": {"labels": {"a": "b"}}}, id="labels that are not its to change"),
    pytest.param(
        "resize",
        JSON,
        [{"op": "replace", "path": "/spec/containers/0/resources/limits/memory", "value": "80Mi"}],
        id="a limit by JSON patch",
    ),
    pytest.param("status", STRATEGIC, {"status": {"phase": "Running", "podIP": "10.0.0.1"}}, id="an address"),
    pytest.param(
        "status", STRATEGIC, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, id="a condition"
    ),
    pytest.param("status", STRATEGIC, sized(limits={"cpu": "1"}), id="a size through the status"),
    pytest.param("status", STRATEGIC, {"metadata": {"annotations": {"a": "b"}}}, id="an annotation"),
    pytest.param("status", MERGE, {"status": None}, id="no status"),
    pytest.param("status", MERGE, {"spec": None}, id="no spec through the status"),
]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with serving(tmp_path) as made:
        ask = Asker(made)
        await ask("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        container = {"name": "c", "image": "busybox", "resources": SIZE, "livenessProbe": {"exec": {"command": ["a"]}}}
        code, body = await ask("POST", PODS, {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
        assert code == 201, body
        conditions = [{"type": "Initialized", "status": "True", "observedGeneration": 1}]
        code, body = await ask("PATCH", f"{PODS}/p/status", {"status": {"conditions": conditions}}, STRATEGIC)
        assert code == 200, body
        yield made


@pytest.mark.parametrize(("subresource", "media", "patch"), PATCHES)
async def test_a_patch_leaves_the_stored_pod_as_it_is(
    server: ApiServer, subresource: str, media: str, patch: Any
) -> None:
    stored = server.objects.get(POD, "default", "p")
    before = deepcopy(stored)
    code, body = await Asker(server)("PATCH", f"{PODS}/p/{subresource}", patch, media)
    assert code in (200, 422), body
    assert stored == before


@pytest.mark.parametrize(("subresource", "media", "patch"), PATCHES)
async def test_what_is_remembered_is_what_is_stored(
    server: ApiServer, subresource: str, media: str, patch: Any
) -> None:
    await Asker(server)("PATCH", f"{PODS}/p/{subresource}", patch, media)
    record = server.objects.required(POD, "default", "p")
    assert server.objects.decoded(record) == wire.object_of(record)


@pytest.mark.parametrize(("subresource", "media", "patch"), PATCHES)
async def test_sharing_readers_get_the_same_object(server: ApiServer, subresource: str, media: str, patch: Any) -> None:
    headers = {"content-type": media, "accept": "application/json"}
    asked = Request("PATCH", f"{PODS}/p/{subresource}", {}, headers, wire.encode(patch), ADMIN, shares=True)
    answer = await server.handle(asked)
    if answer.status != 200:
        assert answer.shared is None
        return
    assert not answer.body
    assert answer.shared is server.objects.get(POD, "default", "p")
    assert answer.shared == (await Asker(server)("GET", f"{PODS}/p"))[1]


@pytest.mark.parametrize("accept", ["application/yaml", "application/json;as=Table;g=meta.k8s.io;v=v1"])
async def test_a_client_can_request_another_form(server: ApiServer, accept: str) -> None:
    headers = {"content-type": MERGE, "accept": accept}
    asked = Request("PATCH", f"{PODS}/p", {}, headers, b'{"metadata":{"labels":{"a":"b"}}}', ADMIN, shares=True)
    answer = await server.handle(asked)
    assert (answer.status, answer.shared) == (200, None)
    assert b"a: b" in answer.body or b"Table" in answer.body


@pytest.mark.parametrize(("path", "word"), [("/p", "PartialObjectMetadata"), ("", "PartialObjectMetadataList")])
async def test_metadata_alone_is_the_metadata_of_the_whole(server: ApiServer, path: str, word: str) -> None:
    ask = Asker(server)
    _, whole = await ask("GET", f"{PODS}{path}")
    _, alone = await ask("GET", f"{PODS}{path}", accept=f"application/json;as={word};g=meta.k8s.io;v=v1")
    assert alone["kind"] == word
    shown = [item["metadata"] for item in alone.get("items", [alone])]
    assert shown == [item["metadata"] for item in whole.get("items", [whole])]


@pytest.mark.parametrize(
    ("path", "word", "body"),
    [
        ("", "PartialObjectMetadata", "a list (*core.PodList)"),
        ("/p", "PartialObjectMetadataList", "not a list (*core.Pod)"),
    ],
)
async def test_metadata_of_one_object_is_not_that_of_a_list(server: ApiServer, path: str, word: str, body: str) -> None:
    code, answer = await Asker(server)("GET", f"{PODS}{path}", accept=f"application/json;as={word};g=meta.k8s.io;v=v1")
    assert (code, answer["reason"]) == (406, "NotAcceptable")
    assert answer["message"] == f"you requested {word}, but the requested object is {body}"
