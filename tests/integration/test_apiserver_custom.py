"""Custom resources on a server: schema, versions, status, scale, columns, and removal of their definition."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker, expect_code, serving

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"
MERGE = "application/merge-patch+json"
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1},
                "color": {"type": "string", "default": "red"},
                "replicas": {"type": "integer"},
            },
        },
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
    },
}


def version(name: str, storage: bool) -> dict[str, Any]:
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": SCHEMA},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}],
    }


DEFINITION = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]},
        "versions": [version("v1", True), version("v1beta1", False)],
    },
}


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    async with serving(tmp_path) as server:
        asker = Asker(server)
        code, made = await asker("POST", DEFINITIONS, DEFINITION)
        assert code == 201, made
        await expect_code(asker, THINGS, 200)
        yield asker


def thing(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


async def test_objects_are_defaulted_pruned_and_validated(ask: Asker) -> None:
    code, made = await ask("POST", THINGS, thing("a", size=2, extra=True))
    assert (code, made["spec"]) == (201, {"size": 2, "color": "red"})
    code, refused = await ask("POST", THINGS, thing("b", size=0))
    assert (code, refused["details"]["causes"][0]["field"]) == (422, "spec.size")


async def test_every_served_version_shows_the_same_object(ask: Asker) -> None:
    await ask("POST", THINGS, thing("a", size=2))
    code, other = await ask("GET", THINGS.replace("/v1/", "/v1beta1/") + "/a")
    assert (code, other["apiVersion"], other["spec"]["size"]) == (200, "example.com/v1beta1", 2)
    code, listed = await ask("GET", THINGS.replace("/v1/", "/v1beta1/"))
    assert [item["apiVersion"] for item in listed["items"]] == ["example.com/v1beta1"]


async def test_status_and_scale_are_subresources(ask: Asker) -> None:
    await ask("POST", THINGS, thing("a", size=2, replicas=3))
    code, made = await ask("PATCH", f"{THINGS}/a/status", {"status": {"replicas": 1}, "spec": {"size": 9}}, MERGE)
    assert (code, made["spec"]["size"], made["status"]) == (200, 2, {"replicas": 1})
    code, scale = await ask("PATCH", f"{THINGS}/a/scale", {"spec": {"replicas": 7}}, MERGE)
    assert (code, scale["spec"], scale["status"]) == (200, {"replicas": 7}, {"replicas": 1})
    code, made = await ask("GET", f"{THINGS}/a")
    assert (made["spec"]["replicas"], made["metadata"]["generation"]) == (7, 2)


async def test_columns_are_those_of_the_definition(ask: Asker) -> None:
    await ask("POST", THINGS, thing("a", size=2))
    _, table = await ask("GET", THINGS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Color"]
    assert table["rows"][0]["cells"] == ["a", "red"]


async def test_discovery_and_openapi_know_the_kind(ask: Asker) -> None:
    _, listed = await ask("GET", "/apis/example.com/v1")
    assert {row["name"] for row in listed["resources"]} == {"things", "things/status", "things/scale"}
    _, document = await ask("GET", "/openapi/v3/apis/example.com/v1")
    assert any(name.endswith(".Thing") for name in document["components"]["schemas"])


async def test_a_definition_goes_after_its_objects(ask: Asker) -> None:
    await ask("POST", THINGS, thing("a", size=2))
    held = thing("held", size=2)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await ask("POST", THINGS, held)
    _, standing = await ask("GET", f"{DEFINITIONS}/things.example.com")
    assert "finalizers" not in standing["metadata"]
    code, going = await ask("DELETE", f"{DEFINITIONS}/things.example.com")
    assert code == 200
    assert going["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    reported = going["status"]["conditions"][-1]
    assert (reported["type"], reported["status"], reported["reason"]) == (
        "Terminating",
        "True",
        "InstanceDeletionPending",
    )
    assert reported["message"].startswith("CustomResourceDefinition marked for deletion")
    await expect_code(ask, f"{THINGS}/a", 404)
    code, kept = await ask("GET", f"{THINGS}/held")
    assert (code, bool(kept["metadata"]["deletionTimestamp"])) == (200, True)
    await ask("PATCH", f"{THINGS}/held", {"metadata": {"finalizers": None}}, MERGE)
    await expect_code(ask, f"{DEFINITIONS}/things.example.com", 404)
    await expect_code(ask, THINGS, 404)


async def test_immutable_fields_of_an_established_definition_are_named_in_order(ask: Asker) -> None:
    change = {"spec": {"group": "q.com", "scope": "Cluster", "names": {"kind": "Other", "plural": "others"}}}
    code, refusal = await ask("PATCH", f"{DEFINITIONS}/things.example.com", change, MERGE)
    fields = [cause["field"] for cause in refusal["details"]["causes"]]
    assert (code, fields) == (422, ["spec.scope", "spec.names.kind", "spec.group", "spec.names.plural"])


async def test_a_second_definition_may_not_take_the_kind(ask: Asker) -> None:
    other = json.loads(json.dumps(DEFINITION))
    other["metadata"]["name"] = "others.example.com"
    other["spec"]["names"] = {"plural": "others", "kind": "Thing"}
    await ask("POST", DEFINITIONS, other)
    async with asyncio.timeout(10):
        while True:
            _, stored = await ask("GET", f"{DEFINITIONS}/others.example.com")
            if stored["status"].get("conditions"):
                break
            await asyncio.sleep(0)
    assert [row["status"] for row in stored["status"]["conditions"]] == ["False", "False"]
    assert (await ask("GET", "/apis/example.com/v1/others"))[0] == 404


async def test_the_autoscalers_definitions_exist_from_the_start(ask: Asker) -> None:
    code, listed = await ask("GET", "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers")
    assert (code, listed["items"]) == (200, [])


@pytest.mark.parametrize("said", ["example.com/v1beta1", "v1", ""])
async def test_a_body_of_another_version_is_refused(ask: Asker, said: str) -> None:
    status, answer = await ask("POST", THINGS, {"apiVersion": said, "kind": "Other", "metadata": {"name": "a"}})
    expected = "does not match the expected API version (example.com/v1)"
    assert (status, answer["message"]) == (400, f"the API version in the data ({said}) {expected}")


async def test_a_body_of_another_kind_is_invalid(ask: Asker) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Other", "metadata": {"name": "a"}}
    status, answer = await ask("POST", THINGS, body)
    assert status == 422
    assert answer["message"] == 'Other.example.com "a" is invalid: kind: Invalid value: "Other": must be Thing'


async def test_a_limit_range_without_a_name_gets_one(ask: Asker) -> None:
    status, made = await ask("POST", "/api/v1/namespaces/default/limitranges", {"spec": {"limits": []}})
    assert status == 201 and len(made["metadata"]["name"]) == 36
