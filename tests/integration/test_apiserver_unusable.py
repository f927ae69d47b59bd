"""Neither an unusable stored object nor a failing listener stops the server, its watches or its next start."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from podfit.api.registry.kinds import BUILT_IN, Kind, kind_named
from podfit.api.resize.dialects import DIALECTS, LABEL, NATIVE
from podfit.apiserver.app import ApiServer
from podfit.apiserver.config import Config
from podfit.apiserver.request import ADMIN, Request, Response
from podfit.apiserver.storage.events import WatchEvent
from podfit.store.memory import MemoryStore

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
OBJECT = {"type": "object"}


@asynccontextmanager
async def running(folder: Path, store: MemoryStore | None = None, dialect: str = NATIVE) -> AsyncIterator[ApiServer]:
    server = ApiServer(Config(store or MemoryStore(), folder, tls=False, resize_dialect=dialect))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def ask(server: ApiServer, method: str, path: str, body: Any = None, **query: str) -> Response:
    raw = b"" if body is None else json.dumps(body).encode()
    asked = {key: [value] for key, value in query.items()}
    return await server.handle(Request(method, path, asked, {}, raw, ADMIN))


def definition(schema: Any, plural: str = "things") -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].title()},
            "versions": [version],
        },
    }


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


async def watches_work(server: ApiServer) -> bool:
    """Whether a watcher at the hub gets the event about a new object."""
    answer = await ask(server, "GET", CONFIG_MAPS, watch="true", resourceVersion=str(server.config.store.revision))
    assert answer.stream is not None
    async with asyncio.timeout(10):
        first = asyncio.ensure_future(anext(answer.stream))
        while not any(server.hub.watchers()):
            await asyncio.sleep(0)
        assert (await ask(server, "POST", CONFIG_MAPS, {"metadata": {"generateName": "a-"}})).status == 201
        event = json.loads(await first)
    await answer.stream.aclose()  # type: ignore[attr-defined]
    return bool(event["type"] == "ADDED")


REFUSED = {
    "items of a text": ({"type": "array", "items": "string"}, 422, "items: Required value: must be specified"),
    "items of a number": ({"type": "array", "items": 5}, 422, "items: Required value: must be specified"),
    "items of several": ({"type": "array", "items": [OBJECT]}, 422, "items must be a schema object and not an array"),
    "items in items": ({"type": "array", "items": {"type": "array"}}, 422, "items.items: Required value"),
    "a type in items": ({"type": "array", "items": {"type": 5}}, 400, "JSONSchemaProps.type of type string"),
    "more of a text": ({"type": "object", "additionalProperties": "x"}, 400, "boolean or JSON schema expected"),
    "more of a list": ({"type": "object", "additionalProperties": []}, 400, "boolean or JSON schema expected"),
    "dependencies": ({"type": "object", "dependencies": {"a": [1]}}, 400, "cannot unmarshal number into Go value"),
    "properties": ({"type": "object", "properties": []}, 400, "of type map[string]v1.JSONSchemaProps"),
    "a text for a schema": ("x", 400, "of type v1.JSONSchemaProps"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_schema_that_kubernetes_refuses_is_refused(tmp_path: Path, case: str) -> None:
    schema, code, words = REFUSED[case]
    whole = schema if isinstance(schema, str) else {"type": "object", "properties": {"a": schema}}
    async with running(tmp_path) as server:
        answer = await ask(server, "POST", DEFINITIONS, definition(whole))
        assert (answer.status, words in json.loads(answer.body)["message"]) == (code, True), answer.body
        assert await watches_work(server)


async def test_a_deep_schema_is_served_and_survives_a_restart(tmp_path: Path) -> None:
    store, path = MemoryStore(), "/apis/example.com/v1/namespaces/default/things"
    value: Any = "x"
    for _ in range(400):
        value = {"a": value}
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}, **value}
    async with running(tmp_path, store) as server:
        assert (await ask(server, "POST", DEFINITIONS, definition(nested(400)))).status == 201
        await served(server, path)
        assert (await ask(server, "POST", path, thing)).status == 201
        assert (await ask(server, "GET", "/openapi/v2")).status == 200
        assert await watches_work(server)
        stored = {record.key: record.value for record in store.scan("/registry/")}
    again = MemoryStore()
    for key, raw in stored.items():
        await again.put(key, raw, 0)
    async with running(tmp_path, again) as server:
        assert json.loads((await ask(server, "GET", f"{path}/x")).body)["a"] == thing["a"]


async def served(server: ApiServer, path: str) -> None:
    async with asyncio.timeout(10):
        while (await ask(server, "GET", path)).status != 200:
            await asyncio.sleep(0.01)


ILL_TYPED: tuple[Any, ...] = ("x", 5, ["x"], {"a": {"b": 5}}, True)
KINDS = [kind for kind in BUILT_IN if "list" in kind.verbs]


@pytest.mark.parametrize("junk", ILL_TYPED, ids=repr)
async def test_the_server_starts_over_ill_typed_objects_of_every_kind(tmp_path: Path, junk: Any) -> None:
    store = MemoryStore()
    for kind in KINDS:
        for field in ("spec", "status", "rules", "subjects", "webhooks", "data", "roleRef", "metadata"):
            obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": {"name": field}, field: junk}
            if field == "metadata":
                obj["metadata"] = {"name": field, "labels": junk, "ownerReferences": junk, "annotations": junk}
            if kind.namespaced:
                obj["metadata"]["namespace"] = "junk"
            await store.put(kind.key("junk" if kind.namespaced else "", field), msgspec.json.encode(obj), None)
    async with running(tmp_path, store) as server:
        assert (await ask(server, "GET", "/readyz")).body == b"ok"
        assert await watches_work(server)


@pytest.mark.parametrize("labels", [{LABEL: ["2020"]}, {LABEL: {"a": "b"}}, {LABEL: 5}], ids=repr)
async def test_a_namespace_whose_dialect_is_not_text_has_the_default_one(tmp_path: Path, labels: Any) -> None:
    store, kind = MemoryStore(), kind_named("Namespace")
    obj = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "junk", "labels": labels}}
    await store.put(kind.key("", "junk"), msgspec.json.encode(obj), None)
    async with running(tmp_path, store, "v1.31") as server:
        dialect = server.dialects.of("junk")
        assert dialect is not None and dialect.name == "v1.31"


def odd(kind: Kind, name: str, junk: Any) -> dict[str, Any]:
    """An object of the kind with invalid data in the fields whose representation depends on the dialect."""
    container = {"name": "c", "resources": {"requests": junk}, "resizePolicy": [junk]}
    status = {"name": "c", "resources": {"requests": junk}, "allocatedResources": junk}
    fields: dict[str, Any] = {
        "spec": {"spec": junk},
        "status": {"status": junk},
        "containers": {"spec": {"containers": junk, "template": {"spec": {"containers": junk}}}},
        "container": {"spec": {"containers": [container], "template": {"spec": {"containers": [container]}}}},
        "statuses": {"spec": {"containers": [container]}, "status": {"containerStatuses": [status]}},
        "conditions": {"spec": {}, "status": {"conditions": [{"type": junk}], "observedGeneration": junk}},
    }
    meta = {"name": name, "namespace": "junk"}
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta, **fields[name]}


ODD = ("spec", "status", "containers", "container", "statuses", "conditions")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("junk", ILL_TYPED, ids=repr)
async def test_ill_typed_objects_can_be_read_and_deleted_in_every_dialect(
    tmp_path: Path, junk: Any, dialect: str
) -> None:
    store = MemoryStore()
    kinds = [kind for kind in KINDS if kind.namespaced and kind.group in ("", "apps", "batch", "autoscaling")]
    for kind in kinds:
        for name in ODD:
            await store.put(kind.key("junk", name), msgspec.json.encode(odd(kind, name, junk)), None)
    async with running(tmp_path, store, dialect) as server:
        for kind in kinds:
            path = f"{'/apis' if kind.group else '/api'}/{kind.api_version}/namespaces/junk/{kind.plural}"
            listed = await ask(server, "GET", path)
            assert listed.status == 200, (path, listed.body)
            names = [item["metadata"]["name"] for item in json.loads(listed.body)["items"]]
            assert set(ODD) <= set(names), path
            for name in ODD:
                assert (await ask(server, "GET", f"{path}/{name}")).status == 200, f"{path}/{name}"
        pods = "/api/v1/namespaces/junk/pods"
        for name in ODD:
            gone = await ask(server, "DELETE", f"{pods}/{name}", gracePeriodSeconds="0")
            assert gone.status == 200, (name, gone.body)


async def test_a_stored_definition_that_cannot_be_used_reports_it_and_can_be_corrected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, kind = MemoryStore(), kind_named("CustomResourceDefinition")
    bad = definition({"type": "object", "properties": {"a": {"type": "object", "additionalProperties": 5}}})
    good = [{"type": word, "status": "True"} for word in ("NamesAccepted", "Established")]
    bad["status"] = {"conditions": good, "acceptedNames": bad["spec"]["names"], "storedVersions": ["v1"]}
    await store.put(kind.key("", "things.example.com"), msgspec.json.encode(bad), 0)
    where = f"{DEFINITIONS}/things.example.com"
    with caplog.at_level(logging.WARNING):
        async with running(tmp_path, store) as server:
            status = json.loads((await ask(server, "GET", where)).body)["status"]
            said = {row["type"]: (row["status"], row.get("reason")) for row in status["conditions"]}
            assert said["Established"] == ("False", "NotServed")
            assert said["NonStructuralSchema"] == ("True", "Violations")
            assert "CustomResourceDefinition things.example.com is stored but cannot be used" in caplog.text
            corrected = json.loads((await ask(server, "GET", where)).body)
            corrected["spec"] = definition(OBJECT)["spec"]
            assert (await ask(server, "PUT", where, corrected)).status == 200
            await served(server, "/apis/example.com/v1/namespaces/default/things")


async def test_a_failing_listener_is_resynchronised_without_affecting_others(tmp_path: Path) -> None:
    seen: list[str] = []
    resynced = asyncio.Event()

    def fail(event: WatchEvent) -> None:
        raise RuntimeError("broken")

    async def resync() -> None:
        resynced.set()

    async with running(tmp_path) as server:
        server.hub.listen("broken", fail, resync=resync)
        server.hub.listen("whole", lambda event: seen.append(event.name))
        assert await watches_work(server)
        async with asyncio.timeout(10):
            await resynced.wait()
        assert seen and (await ask(server, "GET", "/readyz")).body == b"ok"


async def test_resynchronising_is_tried_until_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podfit.apiserver.storage.hub.RESTART_S", 0.001)
    tries: list[int] = []
    done = asyncio.Event()

    def fail(event: WatchEvent) -> None:
        raise RuntimeError("broken")

    async def resync() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise RuntimeError("not yet")
        done.set()

    async with running(tmp_path) as server:
        server.hub.listen("broken", fail, resync=resync)
        await ask(server, "POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
        async with asyncio.timeout(10):
            await done.wait()
    assert len(tries) == 3


async def test_roles_and_addresses_are_as_stored_after_a_failure(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        role = {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
        assert (await ask(server, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)).status == 201
        assert await watches_work(server)
        before = server.rbac.rules_of(("", "r"))
        await server.derived_state.resync()
        assert before and server.rbac.rules_of(("", "r")) == before


async def test_health_names_the_hub_and_fails_with_it(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        answer = await ask(server, "GET", "/readyz", verbose="")
        assert b"[+]watch-hub ok\n" in answer.body
        await server.hub.stop()
        for word in ("readyz", "livez", "healthz"):
            answer = await ask(server, "GET", f"/{word}")
            assert (answer.status, b"[-]watch-hub failed: reason withheld\n" in answer.body) == (500, True)
            assert answer.body.endswith(f"{word} check failed\n".encode())
            assert (await ask(server, "GET", f"/{word}", exclude="watch-hub")).body == b"ok"
        answer = await ask(server, "GET", "/livez/watch-hub")
        assert (answer.status, answer.body) == (500, b"internal server error: the watch hub is not running\n")


async def test_roles_that_aggregate_one_another_cost_what_they_hold(tmp_path: Path) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    async with running(tmp_path) as server:
        for at in range(40):
            selector = {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}
            role = {"metadata": {"name": f"r{at}", "labels": {"x": "y"}}, "aggregationRule": selector, "rules": []}
            assert (await ask(server, "POST", path, role)).status == 201
        assert await watches_work(server)
        assert server.rbac.rules_of(("", "r0")) == ()


async def test_names_that_clients_make_up_do_not_become_metrics(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        await ask(server, "GET", "/api/v1/made-up")
        before = len((await ask(server, "GET", "/metrics")).body.splitlines())
        for at in range(50):
            for path in (
                f"/apis/g{at}/v1/x",
                f"/api/v1/x{at}",
                f"/apis/apps/v{at}/deployments",
                f"/api/v1/pods/x/y{at}",
            ):
                await ask(server, "GET", path)
                await ask(server, f"M{at}", path)
        after = len((await ask(server, "GET", "/metrics")).body.splitlines())
        assert after - before < 100
