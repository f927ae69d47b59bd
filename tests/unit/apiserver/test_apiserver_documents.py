"""Documents that the server publishes, and definitions that it accepts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from podfit.api.schema.publishing.openapi_proto import MEDIA_TYPE
from podfit.apiserver.app import ApiServer
from podfit.apiserver.config import Config
from podfit.apiserver.request import ADMIN, Request, Response
from podfit.store.memory import MemoryStore

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    made = ApiServer(Config(MemoryStore(), tmp_path))
    await made.start()
    yield made
    await made.stop()


async def ask(server: ApiServer, method: str, path: str, body: Any = None, accept: str = "") -> Response:
    data = b"" if body is None else json.dumps(body).encode()
    return await server.handle(Request(method, path, {}, {"accept": accept}, data, ADMIN))


def definition(*schemas: Any) -> dict[str, Any]:
    versions = [
        {"name": f"v{at}", "served": True, "storage": at == 0, "schema": {"openAPIV3Schema": schema}}
        for at, schema in enumerate(schemas)
    ]
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": versions}
    return {"metadata": {"name": "things.example.com"}, "spec": spec}


async def test_openapi_version_2_is_served_in_protobuf_if_accepted(server: ApiServer) -> None:
    asked = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    answer = await ask(server, "GET", "/openapi/v2", accept=asked)
    assert (answer.status, answer.content_type) == (200, MEDIA_TYPE)
    assert answer.body.startswith(b"\x0a\x032.0")
    plain = await ask(server, "GET", "/openapi/v2", accept="application/json")
    assert json.loads(plain.body)["swagger"] == "2.0"


@pytest.mark.parametrize("document", ["v2", "v3/apis/apps/v1"])
async def test_an_openapi_document_in_a_type_that_does_not_exist_is_not_acceptable(
    server: ApiServer, document: str
) -> None:
    answer = await ask(server, "GET", f"/openapi/{document}", accept="text/html, application/xml;q=0.9")
    assert (answer.status, answer.body, answer.headers) == (406, b"", [("Vary", "Accept")])


async def test_openapi_is_sent_in_the_first_type_that_is_available(server: ApiServer) -> None:
    answer = await ask(server, "GET", "/openapi/v2", accept=f"application/xml, {MEDIA_TYPE};q=0.9, */*;q=0.8")
    assert (answer.status, answer.content_type) == (200, MEDIA_TYPE)


@pytest.mark.parametrize(
    ("schemas", "place"),
    [
        ([{}], "spec.validation.openAPIV3Schema.type"),
        ([{"type": "object", "properties": {"a": {}}}], "spec.validation.openAPIV3Schema.properties[a].type"),
        ([{"type": "object"}, {}], "spec.versions[1].schema.openAPIV3Schema.type"),
    ],
)
async def test_a_schema_that_is_not_structural_is_refused(server: ApiServer, schemas: list[Any], place: str) -> None:
    answer = await ask(server, "POST", DEFINITIONS, definition(*schemas))
    assert answer.status == 422
    assert place in [row["field"] for row in json.loads(answer.body)["details"]["causes"]]


async def test_a_structural_schema_is_taken_and_may_not_become_another(server: ApiServer) -> None:
    answer = await ask(server, "POST", DEFINITIONS, definition({"type": "object"}))
    assert answer.status == 201, answer.body
    changed = definition({"type": "object", "properties": {"a": {}}})
    changed["metadata"]["resourceVersion"] = json.loads(
        (await ask(server, "GET", f"{DEFINITIONS}/things.example.com")).body
    )["metadata"]["resourceVersion"]
    answer = await ask(server, "PUT", f"{DEFINITIONS}/things.example.com", changed)
    assert answer.status == 422


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        (
            {"additionalPrinterColumns": [{"name": "A", "type": "string"}]},
            "spec.additionalPrinterColumns[0].JSONPath: Required value",
        ),
        (
            {"subresources": {"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".n"}}},
            'spec.subresources.scale.statusReplicasPath: Invalid value: ".n": should be a json path under .status',
        ),
        (
            {"selectableFields": [{"jsonPath": ".spec.b"}]},
            'spec.selectableFields[0].jsonPath: Invalid value: ".spec.b": is an invalid path: '
            "does not refer to a valid field",
        ),
        (
            {"storage": False},
            'spec.versions: Invalid value: [{"Name":"v0","Served":true,"Storage":false,"Deprecated":false,'
            '"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,'
            '"SelectableFields":null}]: must have exactly one version marked as storage version',
        ),
    ],
)
async def test_fields_common_to_all_versions_belong_to_the_definition(
    server: ApiServer, version: dict[str, Any], wanted: str
) -> None:
    made = definition({"type": "object", "properties": {"spec": {"type": "object"}}})
    made["spec"]["versions"][0].update(version)
    answer = await ask(server, "POST", DEFINITIONS, made)
    assert answer.status == 422
    assert wanted in json.loads(answer.body)["message"]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (
            {"names": {"plural": "things", "kind": "A Thing", "singular": "thing"}},
            'spec.names.kind: Invalid value: "A Thing": may have mixed case, but should otherwise match: a DNS-1035 ',
        ),
        (
            {"names": {"plural": "things", "kind": "Thing", "categories": ["X"]}},
            'spec.names.categories[0]: Invalid value: "X": a DNS-1035 label',
        ),
        (
            {"preserveUnknownFields": True},
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, "
            "set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ),
    ],
)
async def test_a_definition_with_bad_names_or_that_keeps_all_is_refused(
    server: ApiServer, spec: dict[str, Any], wanted: str
) -> None:
    made = definition({"type": "object"})
    made["spec"].update(spec)
    answer = await ask(server, "POST", DEFINITIONS, made)
    assert answer.status == 422
    assert wanted in json.loads(answer.body)["message"]
