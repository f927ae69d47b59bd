"""Custom resources in several versions: conversion by webhook and without one, stored versions, changing schemas."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker, serving
from tests.support.servers.hooks import HookServer

from podfit.api.objects import Object
from podfit.apiserver.representation import wire
from podfit.apiserver.request import ADMIN, Request

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
V1, V2 = (f"/apis/example.com/{word}/namespaces/default/things" for word in ("v1", "v2"))
MERGE = "application/merge-patch+json"


def schema(**fields: Any) -> Object:
    spec = {"type": "object", "properties": fields}
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}


def definition(**conversion: Any) -> Object:
    """v1 has `spec.hostPort`, v2 has `spec.host` and `spec.port`; v1 is stored."""
    text = {"type": "string"}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": schema(hostPort=text)},
                {"name": "v2", "served": True, "storage": False, "schema": schema(host=text, port=text)},
            ],
            "conversion": conversion or {"strategy": "None"},
        },
    }


def convert(request: Object) -> Object:
    wanted, made = request["desiredAPIVersion"], []
    for obj in request["objects"]:
        spec = obj["spec"]
        if wanted.endswith("v2"):
            host, _, port = spec.get("hostPort", "").partition(":")
            made.append({**obj, "apiVersion": wanted, "spec": {"host": host, "port": port}})
        else:
            made.append({**obj, "apiVersion": wanted, "spec": {"hostPort": f"{spec['host']}:{spec['port']}"}})
    return {"result": {"status": "Success"}, "convertedObjects": made}


class Definer(Asker):
    async def define(self, made: Object) -> None:
        code, body = await self("POST", DEFINITIONS, made)
        assert code == 201, body
        async with asyncio.timeout(10):
            while (await self("GET", V1))[0] != 200:
                await asyncio.sleep(0)

    async def change(self, patch: Object, served: Any) -> None:
        """Changes the definition; returns once `served` holds for the answer of the v1 collection."""
        code, body = await self("PATCH", f"{DEFINITIONS}/things.example.com", patch, MERGE)
        assert code == 200, body
        async with asyncio.timeout(10):
            while not served((await self("GET", V1))[1]):
                await asyncio.sleep(0)

    async def events(self, path: str, count: int, **query: str) -> list[Object]:
        asked = {"watch": ["true"], **{key: [value] for key, value in query.items()}}
        answer = await self.server.handle(Request("GET", path, asked, {}, b"", ADMIN))
        assert answer.stream is not None
        seen: list[Object] = []
        async with asyncio.timeout(10):
            async for piece in answer.stream:
                seen += [json.loads(line) for line in piece.splitlines()]
                if len(seen) >= count:
                    break
        await answer.stream.aclose()  # type: ignore[attr-defined]
        return seen

    def stored(self, name: str) -> Object:
        record = self.server.config.store.get(f"/registry/example.com/things/default/{name}")
        assert record is not None
        return wire.object_of(record)


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Definer]:
    async with serving(tmp_path / "server") as server:
        yield Definer(server)


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncIterator[HookServer]:
    async with HookServer(tmp_path / "hooks") as server:
        server.answers["convert"] = convert
        yield server


def by(hooks: HookServer) -> Object:
    webhook = {"clientConfig": hooks.client_config("convert"), "conversionReviewVersions": ["v1"]}
    return definition(strategy="Webhook", webhook=webhook)


def v1(name: str, where: str) -> Object:
    meta = {"name": name}
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": meta, "spec": {"hostPort": where}}


def v2(name: str, host: str, port: str) -> Object:
    spec = {"host": host, "port": port}
    return {"apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


async def test_objects_are_stored_in_one_version_and_served_in_both(ask: Definer, hooks: HookServer) -> None:
    await ask.define(by(hooks))
    code, made = await ask("POST", V2, v2("a", "h", "1"))
    assert (code, made["apiVersion"], made["spec"]) == (201, "example.com/v2", {"host": "h", "port": "1"})
    assert (ask.stored("a")["apiVersion"], ask.stored("a")["spec"]) == ("example.com/v1", {"hostPort": "h:1"})
    assert (await ask("GET", f"{V1}/a"))[1]["spec"] == {"hostPort": "h:1"}
    code, made = await ask("PATCH", f"{V2}/a", {"spec": {"port": "2"}}, MERGE)
    assert (code, made["spec"]) == (200, {"host": "h", "port": "2"})
    assert ask.stored("a")["spec"] == {"hostPort": "h:2"}
    replaced = v1("a", "i:3")
    replaced["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    code, made = await ask("PUT", f"{V1}/a", replaced)
    assert (code, made["spec"]) == (200, {"hostPort": "i:3"})
    assert (await ask("GET", f"{V2}/a"))[1]["spec"] == {"host": "i", "port": "3"}
    assert (await ask("DELETE", f"{V2}/a"))[0] == 200


async def test_a_list_is_converted_in_one_call(ask: Definer, hooks: HookServer) -> None:
    await ask.define(by(hooks))
    for name in ("a", "b", "c"):
        assert (await ask("POST", V1, v1(name, f"{name}:1")))[0] == 201
    assert hooks.asked == []
    _, listed = await ask("GET", V2)
    assert [item["spec"]["host"] for item in listed["items"]] == ["a", "b", "c"]
    assert {item["apiVersion"] for item in listed["items"]} == {"example.com/v2"}
    ((_, asked),) = hooks.asked
    assert (asked["desiredAPIVersion"], len(asked["objects"])) == ("example.com/v2", 3)
    assert (await ask("GET", V2))[0] == 200
    assert len(hooks.asked) == 1, "what did not change is not converted again"


async def test_watches_are_converted(ask: Definer, hooks: HookServer) -> None:
    await ask.define(by(hooks))
    await ask("POST", V1, v1("a", "h:1"))
    watching = asyncio.ensure_future(ask.events(V2, 3, resourceVersion="0"))
    await asyncio.sleep(0)
    await ask("PATCH", f"{V1}/a", {"spec": {"hostPort": "h:2"}}, MERGE)
    await ask("DELETE", f"{V1}/a")
    seen = await watching
    assert [(event["type"], event["object"]["spec"]["port"]) for event in seen] == [
        ("ADDED", "1"),
        ("MODIFIED", "2"),
        ("DELETED", "2"),
    ]
    assert {event["object"]["apiVersion"] for event in seen} == {"example.com/v2"}


async def test_fields_are_those_of_the_requested_version(ask: Definer, hooks: HookServer) -> None:
    made = by(hooks)
    for row, *fields in zip(made["spec"]["versions"], ("hostPort", "host"), strict=True):
        row["selectableFields"] = [{"jsonPath": f".spec.{name}"} for name in fields]
    await ask.define(made)
    for name, host in (("a", "h"), ("b", "h"), ("c", "i")):
        await ask("POST", V1, v1(name, f"{host}:1"))
    listed = (await ask("GET", V2, fieldSelector="spec.host=h", limit="1"))[1]
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a"] and listed["metadata"]["continue"]
    since = listed["metadata"]["resourceVersion"]
    initial = {"fieldSelector": "spec.host=h", "resourceVersion": "0"}
    watching = [
        asyncio.ensure_future(ask.events(V2, 5, **initial)),
        asyncio.ensure_future(ask.events(V2, 3, **{**initial, "resourceVersion": since})),
    ]
    await asyncio.sleep(0)
    await ask("PATCH", f"{V1}/c", {"spec": {"hostPort": "h:2"}}, MERGE)
    await ask("PATCH", f"{V1}/a", {"spec": {"hostPort": "x:1"}}, MERGE)
    code, gone = await ask("DELETE", V2, fieldSelector="spec.host=h,metadata.name=b")
    assert code == 200 and [item["metadata"]["name"] for item in gone["items"]] == ["b"]
    assert (await ask("GET", V1, fieldSelector="spec.hostPort=h:2"))[1]["items"][0]["metadata"]["name"] == "c"
    after = [("ADDED", "c", "h"), ("DELETED", "a", "h"), ("DELETED", "b", "h")]
    body = [
        [(event["type"], event["object"]["metadata"]["name"], event["object"]["spec"]["host"]) for event in events]
        for events in await asyncio.gather(*watching)
    ]
    assert body == [[("ADDED", "a", "h"), ("ADDED", "b", "h"), *after], after]


async def test_a_failing_webhook_is_reported_and_nothing_is_written(ask: Definer, hooks: HookServer) -> None:
    await ask.define(by(hooks))
    hooks.answers["convert"] = lambda asked: {"result": {"status": "Failure", "message": "no idea"}}
    code, body = await ask("POST", V2, v2("a", "h", "1"))
    assert (code, body["message"]) == (500, "conversion webhook for example.com/v2, Kind=Thing failed: no idea")
    assert (await ask("GET", f"{V1}/a"))[0] == 404
    await ask("POST", V1, v1("a", "h:1"))
    assert (await ask("GET", V2))[1]["message"] == "conversion webhook for example.com/v1, Kind=Thing failed: no idea"
    (event,) = await ask.events(V2, 1, resourceVersion="0")
    assert (event["type"], event["object"]["code"]) == ("ERROR", 500)
    assert (await ask("GET", V1))[0] == 200, "the stored version needs no hook"
    hooks.answers["convert"] = lambda asked: {"result": {"status": "Success"}, "convertedObjects": []}
    body = (await ask("GET", f"{V2}/a"))[1]["message"]
    assert body == "conversion webhook for example.com/v1, Kind=Thing returned 0 objects, expected 1"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"apiVersion": "example.com/v3"}, "returned invalid object at index 0: invalid groupVersion (expected"),
        ({"kind": "Other"}, "returned invalid object at index 0: invalid kind (expected Thing, received Other)"),
        ({"metadata": {"name": "b"}}, "returned invalid object: must have the same name: a != b"),
        ({"metadata": None}, "returned invalid metadata: missing metadata in converted object"),
    ],
)
async def test_a_hook_may_not_turn_an_object_into_another(
    ask: Definer, hooks: HookServer, change: Object, why: str
) -> None:
    await ask.define(by(hooks))
    await ask("POST", V1, v1("a", "h:1"))
    hooks.answers["convert"] = lambda asked: {
        "result": {"status": "Success"},
        "convertedObjects": [{**asked["objects"][0], "apiVersion": asked["desiredAPIVersion"], **change}],
    }
    code, body = await ask("GET", f"{V2}/a")
    assert code == 500
    assert body["message"].startswith(f"conversion webhook for example.com/v1, Kind=Thing {why}")


async def test_a_hook_may_change_labels_and_nothing_else_of_the_metadata(ask: Definer, hooks: HookServer) -> None:
    await ask.define(by(hooks))
    await ask("POST", V1, v1("a", "h:1"))

    def answer(asked: Object) -> Object:
        made = convert(asked)
        made["convertedObjects"][0]["metadata"].update(labels={"x": "y"}, finalizers=["a/b"])
        return made

    hooks.answers["convert"] = answer
    meta = (await ask("GET", f"{V2}/a"))[1]["metadata"]
    assert meta["labels"] == {"x": "y"}
    assert "finalizers" not in meta


async def test_without_a_hook_only_the_version_changes_and_what_it_does_not_know_vanishes(ask: Definer) -> None:
    await ask.define(definition())
    await ask("POST", V1, v1("a", "h:1"))
    code, shown = await ask("GET", f"{V2}/a")
    assert (code, shown["apiVersion"], shown["spec"]) == (200, "example.com/v2", {})
    assert (await ask("GET", f"{V1}/a"))[1]["spec"] == {"hostPort": "h:1"}


async def test_stored_versions_accumulate_until_they_are_removed_from_the_status(ask: Definer) -> None:
    await ask.define(definition())
    made = definition()
    made["spec"]["versions"][0]["storage"], made["spec"]["versions"][1]["storage"] = False, True
    path = f"{DEFINITIONS}/things.example.com"
    code, body = await ask("PATCH", path, {"spec": {"versions": made["spec"]["versions"]}}, MERGE)
    assert (code, body["status"]["storedVersions"]) == (200, ["v1", "v2"])
    only = [made["spec"]["versions"][1]]
    code, body = await ask("PATCH", path, {"spec": {"versions": only}}, MERGE)
    assert code == 422
    assert "v1 was previously a storage version, and must remain in spec.versions until" in body["message"]
    code, body = await ask("PATCH", f"{path}/status", {"status": {"storedVersions": ["v2"]}}, MERGE)
    assert (code, body["status"]["storedVersions"]) == (200, ["v2"])
    assert (await ask("PATCH", path, {"spec": {"versions": only}}, MERGE))[0] == 200


async def test_objects_follow_a_schema_that_changes_after_them(ask: Definer) -> None:
    await ask.define(definition())
    await ask("POST", V1, v1("a", "h:1"))
    made = definition()
    text: Object = {"type": "string"}
    made["spec"]["versions"][0]["schema"] = schema(color={**text, "default": "red"})
    patch = {"spec": {"versions": made["spec"]["versions"]}}
    await ask.change(patch, lambda listed: listed["items"][0]["spec"] == {"color": "red"})
    assert (await ask("GET", f"{V1}/a"))[1]["spec"] == {"color": "red"}
    assert ask.stored("a")["spec"] == {"hostPort": "h:1"}, "reading writes nothing"


@pytest.mark.parametrize(
    ("conversion", "field"),
    [
        ({"strategy": "Sometimes"}, "spec.conversion.strategy"),
        ({"strategy": "Webhook"}, "spec.conversion.webhookClientConfig"),
        (
            {
                "strategy": "Webhook",
                "webhook": {"clientConfig": {"url": "https://x"}, "conversionReviewVersions": ["v9"]},
            },
            "spec.conversion.conversionReviewVersions",
        ),
        (
            {
                "strategy": "Webhook",
                "webhook": {"clientConfig": {"url": "http://x"}, "conversionReviewVersions": ["v1"]},
            },
            "spec.conversion.webhookClientConfig.url",
        ),
        (
            {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}},
            "spec.conversion.conversionReviewVersions",
        ),
    ],
)
async def test_nonsense_about_conversion_is_refused(ask: Definer, conversion: Object, field: str) -> None:
    code, body = await ask("POST", DEFINITIONS, definition(**conversion))
    assert code == 422
    assert field in [cause["field"] for cause in body["details"]["causes"]]


async def test_a_definition_on_its_way_out_takes_no_new_objects(ask: Definer) -> None:
    await ask.define(definition())
    held = v1("a", "h:1")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await ask("POST", V1, held)
    await ask("DELETE", f"{DEFINITIONS}/things.example.com")
    rows: dict[str, Any] = {}
    async with asyncio.timeout(10):
        while rows.get("Terminating") != ("True", "InstanceDeletionInProgress"):
            await asyncio.sleep(0)
            _, body = await ask("GET", f"{DEFINITIONS}/things.example.com")
            rows = {row["type"]: (row["status"], row["reason"]) for row in body["status"]["conditions"]}
        while (await ask("POST", V1, v1("b", "h:1"), dryRun="All"))[0] != 405:
            await asyncio.sleep(0)
    assert (await ask("PATCH", f"{V1}/a", {"metadata": {"finalizers": None}}, MERGE))[0] == 200
    async with asyncio.timeout(10):
        while (await ask("GET", f"{DEFINITIONS}/things.example.com"))[0] != 404:
            await asyncio.sleep(0)


async def test_accepted_names_follow_the_names(ask: Definer) -> None:
    await ask.define(definition())
    path = f"{DEFINITIONS}/things.example.com"
    await ask("PATCH", path, {"spec": {"names": {"shortNames": ["th"]}}}, MERGE)
    async with asyncio.timeout(10):
        while (await ask("GET", path))[1]["status"]["acceptedNames"].get("shortNames") != ["th"]:
            await asyncio.sleep(0)


async def test_groups_of_the_community_need_an_approval(ask: Definer) -> None:
    made = definition()
    made["metadata"] = {"name": "things.x.k8s.io"}
    made["spec"]["group"] = "x.k8s.io"
    code, body = await ask("POST", DEFINITIONS, made)
    assert (code, body["details"]["causes"][0]["field"]) == (422, "metadata.annotations[api-approved.kubernetes.io]")
    made["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, for tests"}
    assert (await ask("POST", DEFINITIONS, made))[0] == 201


async def test_users_of_a_deprecated_version_are_warned_and_refusals_warn_too(ask: Definer) -> None:
    made = definition()
    made["spec"]["versions"][0].update(deprecated=True)
    made["spec"]["versions"][1].update(deprecated=True, deprecationWarning="use something else")
    await ask.define(made)
    for path, body in ((V1, "example.com/v1 Thing is deprecated"), (f"{V2}/no", "use something else")):
        answer = await ask.server.handle(Request("GET", path, {}, {}, b"", ADMIN))
        assert ("Warning", f'299 - "{body}"') in answer.headers


async def test_the_warning_about_a_deprecated_version_names_a_later_one(ask: Definer) -> None:
    made = definition()
    made["spec"]["versions"][0].update(deprecated=True)
    made["spec"]["versions"][1].update(deprecated=False)
    await ask.define(made)
    answer = await ask.server.handle(Request("GET", V1, {}, {}, b"", ADMIN))
    better = f"{made['spec']['group']}/{made['spec']['versions'][1]['name']} Thing"
    assert ("Warning", f'299 - "example.com/v1 Thing is deprecated; use {better}"') in answer.headers


async def test_objects_are_selected_by_the_fields_their_definition_names(ask: Definer) -> None:
    made = definition()
    made["spec"]["versions"][0]["selectableFields"] = [{"jsonPath": ".spec.hostPort"}]
    await ask.define(made)
    for name in ("a", "b"):
        await ask("POST", V1, v1(name, f"{name}:1"))
    _, listed = await ask("GET", V1, fieldSelector="spec.hostPort=b:1")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["b"]
    code, body = await ask("GET", V2, fieldSelector="spec.hostPort=b:1")
    assert (code, body["message"]) == (400, "field label not supported: spec.hostPort")


async def test_groups_of_definitions_have_api_services_while_they_are_served(ask: Definer) -> None:
    await ask.define(definition())
    path = "/apis/apiregistration.k8s.io/v1/apiservices/v2.example.com"
    async with asyncio.timeout(10):
        while (await ask("GET", path))[0] != 200:
            await asyncio.sleep(0)
        await ask("DELETE", f"{DEFINITIONS}/things.example.com")
        while (await ask("GET", path))[0] != 404:
            await asyncio.sleep(0)


async def test_a_default_its_own_schema_refuses_is_refused(ask: Definer) -> None:
    made = definition()
    made["spec"]["versions"][0]["schema"] = schema(size={"type": "integer", "default": "big"})
    code, body = await ask("POST", DEFINITIONS, made)
    path = "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[size].default"
    assert (code, body["details"]["causes"][0]["field"]) == (422, path)
    assert "must be of type integer" in body["message"]
