"""Bodies of any form, sent to pods of every dialect by every verb: each gets a client error or the result of a
change, and never a server error. Nothing is stored: every write is a dry run.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Coroutine, Iterator
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.cluster.asking import Asker
from tests.support.cluster.nodes import Cluster
from tests.support.servers.protobufs import protobuf_pod

from podfit.api import protobuf
from podfit.api.objects import Object
from podfit.api.resize.dialects import DIALECTS
from podfit.apiserver.request import ADMIN, Request

T = TypeVar("T")
Place = tuple[str | int, ...]
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
APPLY, JSON_PATCH = "application/apply-patch+yaml", "application/json-patch+json"
BROKEN = "the server has an error of its own"
FIELDS = [
    "spec",
    "status",
    "metadata",
    "containers",
    "initContainers",
    "ephemeralContainers",
    "resources",
    "requests",
    "limits",
    "resizePolicy",
    "policy",
    "restartPolicy",
    "resourcesAllocated",
    "allocatedResources",
    "containerStatuses",
    "conditions",
    "resize",
    "name",
    "annotations",
    "labels",
    "observedGeneration",
    "generation",
    "state",
    "cpu",
]
JUNK: list[Any] = [
    None,
    0,
    -1,
    1.5,
    True,
    "",
    "x",
    "1Gi",
    10**30,
    [],
    [[]],
    [None],
    ["x"],
    [{}],
    {},
    {"x": 1},
    {"": ""},
]
JUNK += [{"cpu": 1}, {"cpu": None}, {"cpu": {}}, {"cpu": "-1"}, {"cpu": "Proposed"}, "Proposed"]
JUNK += [[{"name": None}], [{"name": 5}], [{"name": {}}], [{"name": "c"}, {"name": "c"}]]
JUNK += [[{"resourceName": "cpu"}], [{"policy": 5}], [{"resourceName": [], "policy": {}}]]


class World(NamedTuple):
    loop: asyncio.AbstractEventLoop
    cluster: Cluster

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def ask(self, method: str, path: str, body: Any = None, media: str = "application/json") -> tuple[int, Any]:
        more = {"dryRun": "All"} if method != "GET" else {}
        if media == APPLY:
            more |= {"fieldManager": "test", "force": "true"}
        return self.run(Asker(self.cluster.server)(method, path, body, media, **more))


def pods_of(dialect: str) -> str:
    return f"/api/v1/namespaces/d-{dialect.replace('.', '-')}/pods"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    loop = asyncio.new_event_loop()
    cluster = Cluster(tmp_path_factory.mktemp("bodies"))
    try:
        loop.run_until_complete(cluster.__aenter__())
        loop.run_until_complete(populate(cluster))
        yield World(loop, cluster)
        loop.run_until_complete(cluster.__aexit__(None, None, None))
    finally:
        loop.close()


async def populate(cluster: Cluster) -> None:
    """A pod in every dialect, with a status as a node reports it."""
    ask = Asker(cluster.server)
    sizes = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
    spec = {
        "nodeName": "n1",
        "containers": [{"name": "c", "image": "busybox", "resources": sizes}],
        "initContainers": [{"name": "i", "image": "busybox"}],
    }
    report = {"name": "c", "image": "busybox", "imageID": "", "ready": True, "restartCount": 0, "resources": sizes}
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{**report, "state": {"running": {}}, "lastState": {}}],
    }
    for dialect in DIALECTS:
        await cluster.namespace(f"d-{dialect.replace('.', '-')}", dialect)
        code, answer = await ask("POST", pods_of(dialect), {"metadata": {"name": "p"}, "spec": spec})
        assert code == 201, answer
        code, answer = await ask("PATCH", f"{pods_of(dialect)}/p/status", {"status": status}, MERGE)
        assert code == 200, answer


def paths(value: Any, here: Place = ()) -> Iterator[Place]:
    yield here
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        if key != "managedFields":
            yield from paths(inner, (*here, key))


def at(value: Any, path: Place) -> Any:
    for key in path:
        value = value[key]
    return value


def changed(value: Any, path: Place, junk: Any) -> Any:
    if not path:
        return junk
    made = copy.deepcopy(value)
    at(made, path[:-1])[path[-1]] = copy.deepcopy(junk)
    return made


def patch_to(value: Any, path: Place, junk: Any) -> Any:
    """A merge patch that reaches the path; list elements are addressed by name."""
    if not path:
        return copy.deepcopy(junk)
    key = path[0]
    inner = patch_to(value[key], path[1:], junk)
    if isinstance(key, str):
        return {key: inner}
    named = isinstance(inner, dict) and isinstance(value[key], dict) and "name" in value[key]
    return [{"name": value[key]["name"], **inner} if named else inner]


def some_change(data: st.DataObject, pod: Object) -> tuple[Place, Any]:
    path = data.draw(st.sampled_from(list(paths(pod))), "path")
    junk = data.draw(st.sampled_from(JUNK), "value")
    if isinstance(at(pod, path), dict) and data.draw(st.booleans(), "a field of it"):
        path = (*path, data.draw(st.sampled_from(FIELDS), "field"))
    return path, junk


def request(data: st.DataObject, how: str, pod: Object, where: str) -> tuple[str, str, Any, str]:
    one, subresource = f"{where}/p", data.draw(st.sampled_from(["", "/resize", "/status", "/ephemeralcontainers"]))
    if how == "POST":
        fresh = {**pod, "metadata": {"name": "q"}}
        return "POST", where, changed(fresh, *some_change(data, fresh)), "application/json"
    if how == "PUT":
        return "PUT", one + subresource, changed(pod, *some_change(data, pod)), "application/json"
    if how == APPLY:
        applied = {**pod, "metadata": {"name": "p"}}
        return "PATCH", one + subresource, changed(applied, *some_change(data, applied)), APPLY
    path, junk = some_change(data, pod)
    if how == JSON_PATCH:
        pointer = "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in path)
        op = data.draw(st.sampled_from(["add", "replace", "remove", "test", "copy", "move"]), "op")
        return "PATCH", one + subresource, [{"op": op, "path": pointer, "value": junk, "from": "/spec"}], JSON_PATCH
    if path and path not in paths(pod):  # a field that is not there
        path, junk = path[:-1], {path[-1]: junk}
    return "PATCH", one + subresource, patch_to(pod, path, junk), how


EVERY = ["POST", "PUT", MERGE, STRATEGIC, JSON_PATCH, APPLY]


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_body_makes_the_server_fail(world: World, dialect: str, data: st.DataObject) -> None:
    where = pods_of(dialect)
    _, pod = world.ask("GET", f"{where}/p")
    how = data.draw(st.sampled_from(EVERY), "how")
    code, answer = world.ask(*request(data, how, pod, where))
    assert code in range(200, 600) and BROKEN not in json.dumps(answer)
    assert world.ask("GET", f"{where}/p") == (200, pod)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damaged_protobuf_makes_the_server_fail(world: World, dialect: str, data: st.DataObject) -> None:
    where = pods_of(dialect)
    _, pod = world.ask("GET", f"{where}/p")
    body = bytearray(protobuf_pod("RestartContainer"))
    for _ in range(data.draw(st.integers(1, 4), "damages")):
        body[data.draw(st.integers(0, len(body) - 1), "place")] = data.draw(st.integers(0, 255), "byte")
    del body[data.draw(st.integers(len(body) // 2, len(body)), "length") :]
    headers = {"content-type": protobuf.MEDIA_TYPE}
    asked = Request("PUT", f"{where}/p", {"dryRun": ["All"]}, headers, bytes(body), ADMIN)
    answer = world.run(world.cluster.server.handle(asked))
    assert answer.status < 500 and world.ask("GET", f"{where}/p") == (200, pod)
