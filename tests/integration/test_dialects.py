"""Dialects at the edge of the API server: which one a namespace uses, and what clients see of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker
from tests.support.cluster.nodes import Cluster
from tests.support.servers.protobufs import protobuf_pod

from podfit.api import protobuf
from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.api.resize.dialects import DIALECTS, HEADER, LABEL
from podfit.api.status import ApiError
from podfit.apiserver.request import ADMIN, Request

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
APPLY, JSON_PATCH = "application/apply-patch+yaml", "application/json-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
OLDER = DIALECTS[:-1]
NO_RESTART = {"2020": "NoRestart", "2021": "RestartNotRequired"}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path) as made:
        for dialect in DIALECTS:
            await made.namespace(space(dialect), dialect)
        await made.namespace("plain")
        yield made


def space(dialect: str) -> str:
    return "d-" + dialect.replace(".", "-")


def pods_in(dialect: str, rest: str = "") -> str:
    return f"/api/v1/namespaces/{space(dialect)}/pods{rest}"


def manifest(name: str = "p", **container: Any) -> Object:
    sizes = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    one = {"name": "c", "image": "busybox", "resources": sizes, **container}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [one]}}


def policy_of(pod: Object) -> Any:
    return pod["spec"]["containers"][0].get("resizePolicy")


def expected_policy(dialect: str) -> list[Object]:
    key = "policy" if dialect in NO_RESTART else "restartPolicy"
    return [{"resourceName": name, key: NO_RESTART.get(dialect, "NotRequired")} for name in ("cpu", "memory")]


# --- choosing -----------------------------------------------------------------------------------------------------


async def test_a_namespace_cannot_choose_a_dialect_that_there_is_not(cluster: Cluster) -> None:
    body = {"metadata": {"name": "x", "labels": {LABEL: "1999"}}}
    code, answer = await Asker(cluster.server)("POST", "/api/v1/namespaces", body)
    assert (code, answer["reason"], answer["message"]) == (
        422,
        "Invalid",
        f'Namespace "x" is invalid: metadata.labels[{LABEL}]: Unsupported value: "1999": '
        'supported values: "2020", "2021", "v1.31", "v1.32", "v1.35"',
    )


async def test_a_namespace_cannot_change_to_a_dialect_that_there_is_not(cluster: Cluster) -> None:
    patch = {"metadata": {"labels": {LABEL: "1999"}}}
    code, _ = await Asker(cluster.server)("PATCH", "/api/v1/namespaces/plain", patch, MERGE)
    assert code == 422
    assert cluster.server.dialects.of("plain") is None


async def test_the_servers_default_holds_where_a_namespace_has_no_label(tmp_path: Path) -> None:
    async with Cluster(tmp_path, resize_dialect="2021") as cluster:
        await cluster.namespace("native", "v1.35")
        ask = Asker(cluster.server)
        shown = [
            (await ask("POST", f"/api/v1/namespaces/{name}/pods", manifest()))[1] for name in ("default", "native")
        ]
        assert [policy_of(pod) for pod in shown] == [expected_policy("2021"), None]


async def test_a_pod_is_shown_in_the_dialect_right_after_its_namespace_is_made(cluster: Cluster) -> None:
    ask = Asker(cluster.server)
    await ask("POST", "/api/v1/namespaces", {"metadata": {"name": "new", "labels": {LABEL: "2020"}}})
    found = cluster.server.dialects.of("new")
    assert found is not None and found.name == "2020"


async def test_an_unlabelled_namespace_is_served_from_stored_bytes_beside_others(cluster: Cluster) -> None:
    ask = Asker(cluster.server)
    _, pod = await ask("POST", "/api/v1/namespaces/plain/pods", manifest())
    assert policy_of(pod) is None and pod == await cluster.native.get(POD, "plain", "p")


# --- showing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", OLDER)
async def test_reads_lists_tables_and_watches_show_the_dialect(cluster: Cluster, dialect: str) -> None:
    ask, expected = Asker(cluster.server), expected_policy(dialect)
    _, made = await ask("POST", pods_in(dialect), manifest())
    _, one = await ask("GET", pods_in(dialect, "/p"))
    _, listed = await ask("GET", pods_in(dialect))
    _, table = await ask("GET", pods_in(dialect), accept=TABLE, includeObject="Object")
    _, selected = await ask("GET", pods_in(dialect), fieldSelector="status.phase=Pending")
    events = cluster.client.watch(POD, space(dialect))
    async with asyncio.timeout(10):
        _, watched = await anext(aiter(events))
    await events.aclose()
    shown = [made, one, listed["items"][0], table["rows"][0]["object"], selected["items"][0], watched]
    assert [policy_of(pod) for pod in shown] == [expected] * len(shown)


async def test_a_list_of_all_namespaces_shows_each_pod_in_its_own_dialect(cluster: Cluster) -> None:
    ask = Asker(cluster.server)
    for dialect in DIALECTS:
        await ask("POST", pods_in(dialect), manifest())
    _, listed = await ask("GET", "/api/v1/pods")
    shown = {pod["metadata"]["namespace"]: policy_of(pod) for pod in listed["items"]}
    assert shown == {space(item): expected_policy(item) for item in OLDER} | {space("v1.35"): None}


@pytest.mark.parametrize("dialect", OLDER)
async def test_a_client_that_requests_it_gets_the_native_form(cluster: Cluster, dialect: str) -> None:
    await Asker(cluster.server)("POST", pods_in(dialect), manifest())
    headers = {HEADER.lower(): "v1.35"}
    answer = await cluster.server.handle(Request("GET", pods_in(dialect, "/p"), {}, headers, b"", ADMIN))
    assert policy_of(json.loads(answer.body)) is None


@pytest.mark.parametrize("dialect", OLDER)
async def test_derived_fields_are_not_stored(cluster: Cluster, dialect: str) -> None:
    await Asker(cluster.server)("POST", pods_in(dialect), manifest())
    stored = await cluster.native.get(POD, space(dialect), "p")
    assert "resizePolicy" not in stored["spec"]["containers"][0]
    assert "resourcesAllocated" not in json.dumps(stored)


# --- writing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["2020", "2021"])
async def test_apply_takes_policies_in_the_words_of_the_dialect(cluster: Cluster, dialect: str) -> None:
    word = {"2020": "RestartContainer", "2021": "Restart"}[dialect]
    body = manifest(resizePolicy=[{"resourceName": "cpu", "policy": word}])
    code, pod = await Asker(cluster.server)("PATCH", pods_in(dialect, "/p"), body, APPLY, fieldManager="m")
    assert (code, policy_of(pod)[0]) == (201, {"resourceName": "cpu", "policy": word})
    stored = await cluster.native.get(POD, space(dialect), "p")
    assert policy_of(stored) == [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]


async def test_apply_refuses_a_field_of_another_dialect(cluster: Cluster) -> None:
    body = manifest(resizePolicy=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}])
    code, answer = await Asker(cluster.server)("PATCH", pods_in("2021", "/p"), body, APPLY, fieldManager="m")
    assert code == 500 and ".resizePolicy[0].restartPolicy: field not declared in schema" in answer["message"]


@pytest.mark.parametrize("dialect", ["2020", "2021", "v1.31"])
async def test_apply_resizes_a_pod_that_it_owns(cluster: Cluster, dialect: str) -> None:
    ask = Asker(cluster.server)
    await ask("PATCH", pods_in(dialect, "/p"), manifest(), APPLY, fieldManager="m")
    body = manifest(resources={"requests": {"cpu": "200m", "memory": "64Mi"}})
    code, pod = await ask("PATCH", pods_in(dialect, "/p"), body, APPLY, fieldManager="m")
    assert (code, pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]) == (200, "200m")


async def test_an_invalid_applied_amount_is_named(cluster: Cluster) -> None:
    ask = Asker(cluster.server)
    assert (await ask("POST", pods_in("2020"), manifest()))[0] == 201
    containers = [{"name": "c", "resourcesAllocated": {"cpu": True}}]
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}
    code, answer = await ask("PATCH", pods_in("2020", "/p"), body, APPLY, fieldManager="m")
    assert code == 500 and "failed to convert new object" in answer["message"], answer


@pytest.mark.parametrize("dialect", ["2020", "2021"])
async def test_a_json_patch_refers_to_the_represented_object(cluster: Cluster, dialect: str) -> None:
    ask = Asker(cluster.server)
    await ask("POST", pods_in(dialect), manifest())
    test = {"op": "test", "path": "/spec/containers/0/resizePolicy/0/policy", "value": NO_RESTART[dialect]}
    change = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}
    code, pod = await ask("PATCH", pods_in(dialect, "/p"), [test, change], JSON_PATCH)
    assert (code, pod["metadata"]["labels"]) == (200, {"a": "b"})


@pytest.mark.parametrize("dialect", ["2020", "2021"])
async def test_a_template_has_policies_in_the_words_of_the_dialect(cluster: Cluster, dialect: str) -> None:
    policy = [{"resourceName": "memory", "policy": {"2020": "RestartContainer", "2021": "Restart"}[dialect]}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": manifest(resizePolicy=policy)["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    path = f"/apis/apps/v1/namespaces/{space(dialect)}/deployments"
    code, made = await Asker(cluster.server)("POST", path, {"metadata": {"name": "d"}, "spec": spec})
    assert (code, policy_of(made["spec"]["template"])) == (201, policy)


async def test_a_template_with_a_policy_of_another_dialect_is_refused(cluster: Cluster) -> None:
    policy = [{"resourceName": "memory", "policy": "NoRestart"}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": manifest(resizePolicy=policy)["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    path = f"/apis/apps/v1/namespaces/{space('2021')}/deployments"
    code, answer = await Asker(cluster.server)("POST", path, {"metadata": {"name": "d"}, "spec": spec})
    where = "spec.template.spec.containers[0].resizePolicy"
    assert code == 422 and f'{where}: Unsupported value: "NoRestart"' in answer["message"]


@pytest.mark.parametrize("dialect", ["v1.32", "2021"])
async def test_policies_can_be_changed_through_the_subresource(cluster: Cluster, dialect: str) -> None:
    ask, key = Asker(cluster.server), "policy" if dialect in NO_RESTART else "restartPolicy"
    word = "Restart" if dialect == "2021" else "RestartContainer"
    await ask("POST", pods_in(dialect), manifest())
    policy = [{"resourceName": "cpu", key: word}, {"resourceName": "memory", key: word}]
    patch = {"spec": {"containers": [{"name": "c", "resizePolicy": policy}]}}
    code, pod = await ask("PATCH", pods_in(dialect, "/p/resize"), patch, STRATEGIC)
    assert (code, policy_of(pod)) == (200, policy)


async def test_a_resource_without_a_policy_is_named_as_the_releases_name_it(cluster: Cluster) -> None:
    body = manifest(resizePolicy=[{"resourceName": "gpu", "restartPolicy": "NotRequired"}])
    code, answer = await Asker(cluster.server)("POST", pods_in("v1.31"), body)
    reported = 'spec.containers[0].resizePolicy: Unsupported value: gpu: supported values: "cpu", "memory"'
    assert (code, answer["message"]) == (422, f'Pod "p" is invalid: {reported}')


async def test_a_put_without_annotations_is_taken(cluster: Cluster) -> None:
    ask = Asker(cluster.server)
    _, pod = await ask("POST", pods_in("2021"), manifest())
    pod["metadata"]["annotations"] = None
    code, _ = await ask("PUT", pods_in("2021", "/p"), pod)
    assert code == 200


FOREIGN = [
    ("v1.31", {"resourcesAllocated": {"cpu": "1"}}),
    ("2021", {"resourcesAllocated": {"cpu": "1"}}),
    ("2020", {"resizePolicy": [{"resourceName": "cpu", "policy": "NoRestart", "restartPolicy": "NotRequired"}]}),
    ("v1.32", {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired", "policy": "NoRestart"}]}),
    ("v1.35", {"resourcesAllocated": {"cpu": "1"}}),
]


@pytest.mark.parametrize(("dialect", "fields"), FOREIGN)
async def test_a_field_of_another_dialect_is_dropped_when_unknown_fields_are(
    cluster: Cluster, dialect: str, fields: Object
) -> None:
    code, _ = await Asker(cluster.server)("POST", pods_in(dialect), manifest(**fields), fieldValidation="Ignore")
    assert code == 201


@pytest.mark.parametrize(("dialect", "fields"), FOREIGN)
async def test_a_field_of_another_dialect_is_refused_when_unknown_fields_are(
    cluster: Cluster, dialect: str, fields: Object
) -> None:
    path, body = pods_in(dialect), manifest(**fields)
    code, answer = await Asker(cluster.server)("POST", path, body, fieldValidation="Strict")
    assert code == 400 and "strict decoding error: unknown field" in answer["message"]


@pytest.mark.parametrize("dialect", OLDER)
async def test_a_dry_run_shows_the_dialect_and_stores_nothing(cluster: Cluster, dialect: str) -> None:
    code, pod = await Asker(cluster.server)("POST", pods_in(dialect), manifest(), dryRun="All")
    assert (code, policy_of(pod)) == (201, expected_policy(dialect))
    with pytest.raises(ApiError):
        await cluster.native.get(POD, space(dialect), "p")


# --- changing the dialect -----------------------------------------------------------------------------------------


async def test_a_watcher_has_to_list_again_when_its_namespace_changes_dialect(cluster: Cluster) -> None:
    ask = Asker(cluster.server)
    await ask("POST", pods_in("2020"), manifest())
    events = cluster.client.watch(POD, space("2020"))
    async with asyncio.timeout(10):
        await anext(aiter(events))
        patch = {"metadata": {"labels": {LABEL: "2021"}}}
        await ask("PATCH", f"/api/v1/namespaces/{space('2020')}", patch, MERGE)
        with pytest.raises(ApiError) as refused:
            await anext(aiter(events))
    assert refused.value.code == 410


async def test_a_resize_under_way_survives_every_change_of_dialect(cluster: Cluster) -> None:
    """The resize waits for capacity natively, is represented in each dialect, and is unchanged at the end."""
    node = await cluster.node("n1", capacity={"cpu": "1", "memory": "1Gi", "pods": "10"})
    ask, where = Asker(cluster.server), pods_in("v1.35", "/p")
    for name in ("p", "q"):
        body = manifest(name, resources={"requests": {"cpu": "400m"}})
        body["spec"]["nodeName"] = "n1"
        await ask("POST", pods_in("v1.35"), body)
    await node.quiet()
    patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "900m"}}}]}}
    await ask("PATCH", f"{where}/resize", patch, STRATEGIC)
    await node.quiet()
    stored = await cluster.native.get(POD, space("v1.35"), "p")
    shown = {}
    for dialect in DIALECTS:
        label = {"metadata": {"labels": {LABEL: dialect}}}
        await ask("PATCH", f"/api/v1/namespaces/{space('v1.35')}", label, MERGE)
        shown[dialect] = (await ask("GET", where))[1]["status"].get("resize")
    assert shown == {
        "2020": None,
        "2021": {"cpu": "Deferred"},
        "v1.31": "Deferred",
        "v1.32": "Deferred",
        "v1.35": None,
    }
    assert await cluster.native.get(POD, space("v1.35"), "p") == stored


async def test_resizes_reach_the_requested_size_while_their_namespace_changes_dialect_repeatedly(
    cluster: Cluster,
) -> None:
    """One resize waits until another pod is gone; others are accepted at once, whatever the dialect is at that time."""
    node = await cluster.node("n1", capacity={"cpu": "1", "memory": "1Gi", "pods": "10"})
    ask, base = Asker(cluster.server), pods_in("v1.35")
    for name in ("waits", "moves", "leaves"):
        body = manifest(name, resources={"requests": {"cpu": "300m"}})
        body["spec"]["nodeName"] = "n1"
        await ask("POST", base, body)
    await node.quiet()
    for turn, dialect in enumerate(DIALECTS):
        label = {"metadata": {"labels": {LABEL: dialect}}}
        await ask("PATCH", f"/api/v1/namespaces/{space('v1.35')}", label, MERGE)
        door = "/resize" if dialect in ("v1.32", "v1.35") else ""
        for name, cpu in (("waits", f"{600 + turn}m"), ("moves", f"{300 - turn}m")):
            patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
            code, answer = await ask("PATCH", f"{base}/{name}{door}", patch, STRATEGIC)
            assert code == 200, answer
    await ask("DELETE", f"{base}/leaves", gracePeriodSeconds="0")
    await node.quiet()
    ends = {}
    for name in ("waits", "moves"):
        pod = await cluster.native.get(POD, space("v1.35"), name)
        status = pod["status"]["containerStatuses"][0]
        pending = [condition for condition in pod["status"]["conditions"] if condition["type"].startswith("PodResize")]
        ends[name] = (status["allocatedResources"]["cpu"], status["resources"]["requests"]["cpu"], pending)
    assert ends == {"waits": ("604m", "604m", []), "moves": ("296m", "296m", [])}


# --- protobuf -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "word"),
    [("2020", "NoRestart"), ("2021", "Restart"), ("v1.31", "RestartContainer"), ("v1.32", "NotRequired")],
)
async def test_a_protobuf_body_is_read_in_the_dialect(cluster: Cluster, dialect: str, word: str) -> None:
    headers = {"content-type": protobuf.MEDIA_TYPE}
    request = Request("POST", pods_in(dialect), {}, headers, protobuf_pod(word), ADMIN)
    answer = await cluster.server.handle(request)
    key = "policy" if dialect in NO_RESTART else "restartPolicy"
    assert answer.status == 201, answer.body
    assert policy_of(json.loads(answer.body))[0] == {"resourceName": "cpu", key: word}


# --- null in lists ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "applied",
    [
        {"spec": {"containers": [{"name": "c", "resizePolicy": [None]}]}},
        {"spec": {"containers": [None]}},
        {"status": {"containerStatuses": [None]}},
    ],
    ids=["policies", "containers", "statuses"],
)
async def test_apply_of_null_in_a_list_is_answered_as_natively(cluster: Cluster, dialect: str, applied: Object) -> None:
    ask, body = Asker(cluster.server), {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, **applied}
    answers = []
    for name in (dialect, "v1.35"):
        await ask("POST", pods_in(name), manifest())
        code, answer = await ask("PATCH", pods_in(name, "/p"), body, APPLY, fieldManager="me", force="true")
        answers.append((code, answer.get("reason")))
    assert answers[0] == answers[1]
