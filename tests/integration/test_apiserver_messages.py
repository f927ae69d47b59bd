"""Responses of the whole server to requests that the recordings lack have Kubernetes' codes and messages."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from podfit.apiserver.app import ApiServer
from podfit.apiserver.config import Config
from podfit.apiserver.request import ADMIN, Request, Response
from podfit.store.memory import MemoryStore

SPACE = "/api/v1/namespaces/default"
SMP = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"
_UNKNOWN_FORMAT = (
    "the body of the request was in an unknown format - accepted media types include: application/json, "
    "application/yaml, application/vnd.kubernetes.protobuf"
)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    made = ApiServer(Config(MemoryStore(), tmp_path / "data"))
    await made.start()
    await post(made, "serviceaccounts", "ServiceAccount", "default")
    await post(made, "pods", "Pod", "p", spec={"containers": [{"name": "c", "image": "x"}], "schedulerName": "none"})
    await post(made, "configmaps", "ConfigMap", "c", data={"a": "1"})
    yield made
    await made.stop()


async def post(server: ApiServer, plural: str, kind: str, name: str, **fields: Any) -> None:
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields}
    answer = await send(server, "POST", f"{SPACE}/{plural}", body)
    assert answer.status == 201, answer.body


async def send(
    server: ApiServer,
    method: str,
    path: str,
    body: Any = None,
    media: str = "application/json",
    query: dict[str, list[str]] | None = None,
) -> Response:
    raw = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    headers = {"content-type": media} if raw else {}
    return await server.handle(Request(method, path, query or {}, headers, raw, ADMIN))


def binding(**metadata: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", **metadata}, "target": {"name": "n"}}


def eviction(**metadata: str) -> dict[str, Any]:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", **metadata}}


@pytest.mark.parametrize(
    ("method", "path", "body", "media", "code", "message"),
    [
        ("POST", "/pods/p/binding", binding(namespace="other"), "application/json", 400, _NAMESPACE),
        ("POST", "/bindings", binding(namespace="other"), "application/json", 400, _NAMESPACE),
        ("POST", "/pods/p/eviction", eviction(namespace="other"), "application/json", 400, _NAMESPACE),
        ("POST", "/bindings", {"target": {"name": "n"}}, "application/json", 400, "Name parameter required."),
        ("GET", "/pods/a%b", None, "", 400, "Name parameter invalid: \"a%b\": may not contain '%'"),
        ("DELETE", "/pods/..", None, "", 400, "Name parameter invalid: \"..\": may not be '..'"),
        ("DELETE", "/pods/p", "x", "text/plain", 415, _UNKNOWN_FORMAT),
        (
            "POST",
            "/resourcequotas",
            {
                "metadata": {"name": "q"},
                "spec": {
                    "hard": {"services": "1"},
                    "scopeSelector": {"matchExpressions": [{"scopeName": "BestEffort", "operator": "Exists"}]},
                },
            },
            "application/json",
            422,
            'ResourceQuota "q" is invalid: spec.scopeSelector.matchExpressions: Invalid value: {"MatchExpressions":'
            '[{"ScopeName":"BestEffort","Operator":"Exists","Values":null}]}: unsupported scope applied to resource',
        ),
    ],
)
async def test_a_request_is_refused_in_kubernetes_words(
    server: ApiServer, method: str, path: str, body: Any, media: str, code: int, message: str
) -> None:
    answer = await send(server, method, SPACE + path, body, media)
    assert (answer.status, json.loads(answer.body)["message"]) == (code, message)


SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "r"}, "spec": {"replicas": 3}}


@pytest.mark.parametrize(
    ("method", "path", "body", "media"),
    [
        ("POST", "/pods/p/binding", binding(), "application/json"),
        ("POST", "/bindings", binding(), "application/json"),
        ("POST", "/pods/p/eviction", eviction(), "application/json"),
        ("PUT", "/replicationcontrollers/r/scale", SCALE, "application/json"),
        ("PATCH", "/replicationcontrollers/r/scale", {"spec": {"replicas": 3}}, SMP),
    ],
)
async def test_a_request_whose_response_type_is_not_acceptable_changes_nothing(
    server: ApiServer, method: str, path: str, body: Any, media: str
) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    await post(
        server, "replicationcontrollers", "ReplicationController", "r", spec={"replicas": 1, "template": template}
    )
    before, headers = server.config.store.revision, {"content-type": media, "accept": "text/html"}
    answer = await server.handle(Request(method, SPACE + path, {}, headers, json.dumps(body).encode(), ADMIN))
    assert (answer.status, server.config.store.revision) == (406, before)
    assert (await send(server, method, SPACE + path, body, media)).status in (200, 201)


@pytest.mark.parametrize(("more", "code"), [("", 406), (",application/json", 201)])
async def test_there_is_no_table_of_reviews(server: ApiServer, more: str, code: int) -> None:
    body = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    headers = {"content-type": "application/json", "accept": f"application/json;as=Table;v=v1;g=meta.k8s.io{more}"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = await server.handle(Request("POST", path, {}, headers, json.dumps(body).encode(), ADMIN))
    assert answer.status == code


async def test_an_empty_review_of_access_is_invalid(server: ApiServer) -> None:
    answer = await send(
        server, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {}, "application/json"
    )
    assert answer.status == 422


async def test_a_pod_and_its_resize_are_the_same_object(server: ApiServer) -> None:
    plain = await server.handle(Request("GET", SPACE + "/pods/p", {}, {}, b"", ADMIN))
    resize = await server.handle(Request("GET", SPACE + "/pods/p/resize", {}, {}, b"", ADMIN))
    assert (plain.status, json.loads(plain.body)) == (200, json.loads(resize.body))
    assert json.loads(plain.body)["metadata"]["managedFields"]


async def test_a_binding_may_insist_on_a_revision(server: ApiServer) -> None:
    answer = await send(server, "POST", f"{SPACE}/pods/p/binding", binding(resourceVersion="1"))
    assert answer.status == 409
    assert (
        "Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: "
        in (json.loads(answer.body)["message"])
    )


async def test_the_eviction_of_a_terminating_pod_marks_it_once(server: ApiServer) -> None:
    pod = {
        "metadata": {"name": "going", "finalizers": ["a.io/b"]},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    await send(server, "POST", f"{SPACE}/pods", {"apiVersion": "v1", "kind": "Pod", **pod})
    await send(server, "DELETE", f"{SPACE}/pods/going", {})
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "going"}}
    seen = []
    for _ in range(2):
        assert (await send(server, "POST", f"{SPACE}/pods/going/eviction", body)).status == 201
        status = json.loads((await send(server, "GET", f"{SPACE}/pods/going")).body)["status"]
        seen.append([row for row in status["conditions"] if row["type"] == "DisruptionTarget"])
    assert [row["reason"] for row in seen[0]] == ["EvictionByEvictionAPI"]
    assert seen[1] == seen[0]


async def test_delete_options_may_be_yaml(server: ApiServer) -> None:
    answer = await send(server, "DELETE", f"{SPACE}/configmaps/c", "dryRun: [All]\n", "application/yaml")
    assert answer.status == 200
    assert (await send(server, "GET", f"{SPACE}/configmaps/c")).status == 200


async def test_a_field_manager_must_be_printable(server: ApiServer) -> None:
    query = {"fieldManager": ["ä\x01"]}
    answer = await send(server, "PATCH", f"{SPACE}/configmaps/c", {}, SMP, query)
    assert json.loads(answer.body)["message"] == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Invalid value: "ä\\x01": invalid character U+0001 (at '
        "position 2)"
    )


async def test_the_generation_of_an_uncounted_kind_is_the_clients(server: ApiServer) -> None:
    await send(server, "POST", f"{SPACE}/configmaps", {"metadata": {"name": "g", "generation": 7}})
    made = json.loads((await send(server, "GET", f"{SPACE}/configmaps/g")).body)
    assert made["metadata"]["generation"] == 7


async def test_nodes_show_their_first_range_in_the_old_field_too(server: ApiServer) -> None:
    body: dict[str, Any] = {"metadata": {"name": "n"}, "spec": {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}}
    made = json.loads((await send(server, "POST", "/api/v1/nodes", body)).body)
    assert made["spec"]["podCIDR"] == "10.0.0.0/24"
    body["metadata"]["name"] = "m"
    body["spec"] = {"podCIDRs": ["10.0.0.0/24", "10.1.0.0/24"]}
    refused = json.loads((await send(server, "POST", "/api/v1/nodes", body)).body)
    assert refused["message"].endswith("may specify no more than one CIDR for each IP family")


async def test_a_docker_secret_must_be_json(server: ApiServer) -> None:
    body = {"metadata": {"name": "s"}, "type": "kubernetes.io/dockercfg", "data": {".dockercfg": "eA=="}}
    answer = json.loads((await send(server, "POST", f"{SPACE}/secrets", body)).body)
    assert answer["message"] == (
        'Secret "s" is invalid: data[.dockercfg]: Invalid value: "<secret contents redacted>": invalid character \'x\' '
        "looking for beginning of value"
    )


_DECODING = "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal"


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("[]", 400, f"{_DECODING} array into Go value of type map[string]interface {{}}"),
        ("x", 400, f"{_DECODING} string into Go value of type map[string]interface {{}}"),
        ("apiVersion: 1\nkind: ConfigMap\n", 400, "invalid object type: /, Kind=ConfigMap"),
        (
            "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: b\n  a: c\n",
            400,
            'error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 5: key "a" '
            "already set in map",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\nzz: 1\n",
            500,
            "failed to create typed patch object (/c; /v1, Kind=ConfigMap): .zz: field not declared in schema",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: x\n",
            500,
            "failed to create typed patch object (/; /v1, Kind=ConfigMap): .metadata: expected map, got &{x}",
        ),
    ],
)
async def test_a_configuration_that_cannot_be_applied_reports_the_reason(
    server: ApiServer, body: str, code: int, message: str
) -> None:
    query = {"fieldManager": ["m"], "fieldValidation": ["Strict"]}
    answer = await send(server, "PATCH", f"{SPACE}/configmaps/c", body, APPLY, query)
    assert (answer.status, json.loads(answer.body)["message"]) == (code, message)


async def test_a_revision_that_is_not_a_number_is_gos_error(server: ApiServer) -> None:
    body = {"metadata": {"name": "c", "resourceVersion": "abc"}}
    answer = await send(server, "PUT", f"{SPACE}/configmaps/c", body)
    said = 'strconv.ParseUint: parsing "abc": invalid syntax'
    assert (answer.status, json.loads(answer.body)["message"]) == (500, said)


async def test_a_put_that_creates_ignores_the_revision(server: ApiServer) -> None:
    body = {"metadata": {"name": "l", "resourceVersion": "5"}, "spec": {"limits": []}}
    assert (await send(server, "PUT", f"{SPACE}/limitranges/l", body)).status == 201


async def test_long_warnings_are_cut(server: ApiServer) -> None:
    body = {"metadata": {"name": "w"}, **{f"{at}" + "x" * 300: 1 for at in range(30)}}
    answer = await send(server, "POST", f"{SPACE}/configmaps", body)
    reported = [value for name, value in answer.headers if name == "Warning"]
    assert answer.status == 201
    assert {len(each) for each in reported} == {256 + len('299 - ""') + 1}, "the one quote in it is escaped"
    assert len(reported) == 16, "and no more than 4096 letters"


async def test_lists_are_known_kinds(server: ApiServer) -> None:
    answer = await send(server, "POST", f"{SPACE}/pods", {"apiVersion": "v1", "kind": "PodList", "items": []})
    why = "converting (v1.PodList) to (core.Pod): unknown conversion"
    assert json.loads(answer.body)["message"] == f'PodList in version "v1" cannot be handled as a Pod: {why}'


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"kind": "Foo"}, 'no kind "Foo" is registered for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30"'),
        ({"kind": "Pod"}, "converting (v1.Pod) to (core.ConfigMap): unknown conversion"),
        (
            {"kind": 5},
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of "
            "type string",
        ),
    ],
)
async def test_a_merge_patch_may_not_change_the_kind(server: ApiServer, changed: dict[str, Any], why: str) -> None:
    path = f"{SPACE}/configmaps/c"
    answer = await send(server, "PATCH", path, changed, "application/merge-patch+json")
    assert answer.status == 422
    assert json.loads(answer.body)["message"].endswith(f": {why}")
    assert (await send(server, "PATCH", path, changed | {"kind": None}, "application/merge-patch+json")).status == 200
    assert (await send(server, "PATCH", path, {"kind": "Foo"}, SMP)).status == 200, "strategic patches leave the kind"


async def test_a_patch_may_not_change_the_kind_of_a_custom_resource(server: ApiServer) -> None:
    collection = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    body = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "spec": {"targetRef": target}}
    assert (await send(server, "POST", collection, body | {"metadata": {"name": "v"}})).status == 201
    answer = await send(server, "PATCH", f"{collection}/v", {"kind": "Foo"}, "application/merge-patch+json")
    refused = 'kind: Invalid value: "Foo": must be VerticalPodAutoscaler'
    named = 'VerticalPodAutoscaler.autoscaling.k8s.io "v" is invalid'
    assert (answer.status, json.loads(answer.body)["message"]) == (422, f"{named}: {refused}")


async def test_the_classes_of_the_system_cannot_be_deleted(server: ApiServer) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical"
    answer = await send(server, "DELETE", path)
    assert answer.status == 403
    assert json.loads(answer.body)["message"] == (
        'priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: '
        "this is a system priority class and cannot be deleted"
    )
    assert (await send(server, "GET", path)).status == 200


async def test_bytes_that_are_nothing_are_empty(server: ApiServer) -> None:
    body = {"metadata": {"name": "s"}, "data": {"a": None, "b": "eA=="}}
    answer = await send(server, "POST", f"{SPACE}/secrets", body)
    assert json.loads(answer.body)["data"] == {"a": "", "b": "eA=="}


async def test_a_lease_takes_nothing_of_coordinated_elections(server: ApiServer) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    spec = {"holderIdentity": "h", "strategy": "Any", "preferredHolder": "x"}
    made = await send(server, "POST", leases, {"metadata": {"name": "l"}, "spec": spec})
    assert (made.status, json.loads(made.body)["spec"]) == (201, {"holderIdentity": "h"})
    patch = {"spec": {"preferredHolder": "x"}}
    changed = await send(server, "PATCH", f"{leases}/l", patch, "application/merge-patch+json")
    assert (changed.status, json.loads(changed.body)["spec"]) == (200, {"holderIdentity": "h"})


async def test_an_apply_to_the_status_owns_what_the_status_endpoint_writes(server: ApiServer) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    reported = {"labels": {"l": "1"}, "ownerReferences": [owner]}
    reference = {'k:{"uid":"u"}': {".": {}, "f:apiVersion": {}, "f:kind": {}, "f:name": {}, "f:uid": {}}}
    for plural, kind, owned in (
        ("deployments", "Deployment", {"f:ownerReferences": reference}),
        ("replicasets", "ReplicaSet", {"f:labels": {"f:l": {}}, "f:ownerReferences": reference}),
    ):
        path = f"/apis/apps/v1/namespaces/default/{plural}"
        whole = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}}
        assert (await send(server, "POST", path, {**whole, "spec": spec})).status == 201
        body = {**whole, "metadata": {"name": "w", **reported}, "status": {"replicas": 1}}
        answer = await send(server, "PATCH", f"{path}/w/status", body, APPLY, {"fieldManager": ["m"]})
        assert answer.status == 200, answer.body
        meta = json.loads(answer.body)["metadata"]
        fields = next(each["fieldsV1"] for each in meta["managedFields"] if each["manager"] == "m")
        assert fields == {"f:metadata": owned, "f:status": {"f:replicas": {}}}, kind
