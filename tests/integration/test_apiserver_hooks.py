"""Webhooks for another version of a resource, and match conditions about the user's permissions."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker, expect_code, serving
from tests.support.servers.hooks import HookServer

from podfit.api.objects import Object
from podfit.apiserver.app import ApiServer
from podfit.apiserver.request import User

HOOKS = "/apis/admissionregistration.k8s.io/v1"
V1, V2 = (f"/apis/autoscaling/{word}/namespaces/default/horizontalpodautoscalers" for word in ("v1", "v2"))
MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
MAPS = "/api/v1/namespaces/default/configmaps"


class Hooked(Asker):
    def __init__(self, server: ApiServer, hooks: HookServer) -> None:
        super().__init__(server)
        self.hooks = hooks

    async def hook(self, kind: str, rule: Object, **more: Any) -> tuple[int, Any]:
        made = self.hooks.configuration(kind, "h", [rule], **more)
        return await self("POST", f"{HOOKS}/{kind.lower()}s", made)


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Hooked]:
    async with HookServer(tmp_path / "hooks") as hooks, serving(tmp_path / "server") as server:
        yield Hooked(server, hooks)


def rule(group: str, version: str, resource: str) -> Object:
    return {"operations": ["*"], "apiGroups": [group], "apiVersions": [version], "resources": [resource]}


def autoscaler(utilisation: int) -> Object:
    target = {"type": "Utilization", "averageUtilization": utilisation}
    memory = {"type": "Resource", "resource": {"name": "memory", "target": target}}
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"scaleTargetRef": ref, "maxReplicas": 3, "metrics": [memory, cpu]}
    return {"metadata": {"name": "a"}, "spec": spec}


async def test_a_hook_for_v1_sees_and_changes_a_v2_object_as_v1(ask: Hooked) -> None:
    patch = base64.b64encode(b'[{"op":"replace","path":"/spec/targetCPUUtilizationPercentage","value":42}]').decode()
    ask.hooks.answers["h"] = lambda asked: {"allowed": True, "patchType": "JSONPatch", "patch": patch}
    assert (await ask.hook(MUTATING, rule("autoscaling", "v1", "horizontalpodautoscalers")))[0] == 201
    code, made = await ask("POST", V2, autoscaler(50))
    assert code == 201, made
    ((_, asked),) = ask.hooks.asked
    assert (asked["kind"]["version"], asked["requestKind"]["version"]) == ("v1", "v2")
    assert (asked["resource"]["version"], asked["requestResource"]["version"]) == ("v1", "v2")
    assert asked["object"]["spec"]["targetCPUUtilizationPercentage"] == 50
    found = {row["resource"]["name"]: row["resource"]["target"] for row in made["spec"]["metrics"]}
    assert {name: target["averageUtilization"] for name, target in found.items()} == {"cpu": 42, "memory": 50}


async def test_a_hook_that_requires_exact_matches_is_not_called(ask: Hooked) -> None:
    await ask.hook(VALIDATING, rule("autoscaling", "v1", "horizontalpodautoscalers"), matchPolicy="Exact")
    assert (await ask("POST", V2, autoscaler(50)))[0] == 201
    assert ask.hooks.asked == []


async def test_a_hook_whose_rules_change_is_called_by_the_new_rules(ask: Hooked) -> None:
    await ask.hook(VALIDATING, rule("", "v1", "configmaps"))
    assert (await ask("POST", MAPS, {"metadata": {"name": "one"}}))[0] == 201
    changed = ask.hooks.configuration(VALIDATING, "h", [rule("", "v1", "secrets")])
    stands = await ask("GET", f"{HOOKS}/{VALIDATING.lower()}s/h")
    changed["metadata"]["resourceVersion"] = stands[1]["metadata"]["resourceVersion"]
    assert (await ask("PUT", f"{HOOKS}/{VALIDATING.lower()}s/h", changed))[0] == 200
    assert (await ask("POST", MAPS, {"metadata": {"name": "two"}}))[0] == 201
    assert [asked["name"] for _, asked in ask.hooks.asked] == ["one"]


async def test_events_are_one_resource_in_two_groups(ask: Hooked) -> None:
    await ask.hook(VALIDATING, rule("events.k8s.io", "v1", "events"))
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "message": "said",
    }
    assert (await ask("POST", "/api/v1/namespaces/default/events", event))[0] == 201
    ((_, asked),) = ask.hooks.asked
    assert (asked["kind"]["group"], asked["requestKind"]["group"]) == ("events.k8s.io", "")
    assert asked["object"]["note"] == "said"


async def test_changes_of_a_webhook_to_a_resize_do_not_modify_the_stored_pod(ask: Hooked) -> None:
    pods = "/api/v1/namespaces/default/pods"
    amounts = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}
    assert (await ask("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}}))[
        0
    ] == 201
    code, made = await ask("POST", pods, {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    assert code == 201, made
    place = "/spec/containers/0/resources/limits/memory"
    patch = base64.b64encode(f'[{{"op":"add","path":"{place}","value":"{amounts["memory"]}"}}]'.encode()).decode()
    ask.hooks.answers["h"] = lambda asked: {"allowed": True, "patchType": "JSONPatch", "patch": patch}
    assert (await ask.hook(MUTATING, rule("", "v1", "pods/resize")))[0] == 201
    patched = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "3"}}}]}}
    strategic = "application/strategic-merge-patch+json"
    code, answer = await ask("PATCH", f"{pods}/p/resize", patched, strategic, dryRun="All")
    assert code == 200, answer
    assert answer["spec"]["containers"][0]["resources"]["requests"] == amounts
    ask.hooks.answers["h"] = lambda asked: {"allowed": True}
    code, answer = await ask("PATCH", f"{pods}/p/resize", patched, strategic)
    assert answer["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}


async def patched_pod(ask: Hooked, patch: list[Object]) -> tuple[int, Any]:
    """A pod with a limit of CPU, created past a hook that answers with this patch."""
    await ask("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    ask.hooks.answers["h"] = lambda asked: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}
    assert (await ask.hook(MUTATING, rule("", "v1", "pods")))[0] == 201
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}
    return await ask(
        "POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    )


async def test_a_map_whose_last_entry_a_hook_removes_is_not_kept(ask: Hooked) -> None:
    code, made = await patched_pod(ask, [{"op": "remove", "path": "/spec/containers/0/resources/limits/cpu"}])
    assert code == 201 and made["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}


async def test_fields_that_a_hook_makes_up_are_not_kept(ask: Hooked) -> None:
    code, made = await patched_pod(ask, [{"op": "add", "path": "/spec/containers/0/colour", "value": "red"}])
    assert code == 201 and "colour" not in made["spec"]["containers"][0]


async def test_fields_that_the_schema_of_a_custom_resource_does_not_know_are_not_kept(ask: Hooked) -> None:
    data = {"type": "object", "properties": {"data": {"type": "object", "properties": {"known": {"type": "string"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": data}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    definition = {"metadata": {"name": "things.example.com"}, "spec": spec}
    things = "/apis/example.com/v1/namespaces/default/things"
    await ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    await expect_code(ask, things, 200)
    patch = base64.b64encode(b'[{"op":"add","path":"/data","value":{"known":"yes","unknown":"yes"}}]').decode()
    ask.hooks.answers["h"] = lambda asked: {"allowed": True, "patchType": "JSONPatch", "patch": patch}
    assert (await ask.hook(MUTATING, rule("example.com", "v1", "things")))[0] == 201
    body = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
    code, made = await ask("POST", things, body)
    assert code == 201 and made["data"] == {"known": "yes"}


async def test_a_patch_of_the_wrong_type_fails_the_request(ask: Hooked) -> None:
    code, status = await patched_pod(ask, [{"op": "add", "path": "/spec/containers/0/stdin", "value": "yes"}])
    assert code == 500
    assert status["message"] == (
        "Internal error occurred: json: cannot unmarshal string into Go struct field "
        "Container.spec.containers.stdin of type bool"
    )


@pytest.mark.parametrize(
    ("expression", "asked"),
    [
        ("authorizer.group('').resource('secrets').namespace('default').check('get').allowed()", False),
        ("authorizer.requestResource.check('create').allowed()", True),
        ("authorizer.requestResource.check('delete').allowed()", False),
        ("authorizer.path('/healthz').check('get').allowed()", True),
        ("authorizer.serviceAccount('default', 'x').group('').resource('pods').check('list').allowed()", False),
        ("request.userInfo.username == 'maker' && object.metadata.name.startsWith('c')", True),
    ],
)
async def test_conditions_may_check_what_the_user_may_do(ask: Hooked, expression: str, asked: bool) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]
    await ask("POST", f"{roles}/roles", {"metadata": {"name": "r"}, "rules": rules})
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    subjects = [{"kind": "User", "name": "maker", "apiGroup": "rbac.authorization.k8s.io"}]
    await ask("POST", f"{roles}/rolebindings", {"metadata": {"name": "b"}, "roleRef": ref, "subjects": subjects})
    conditions = [{"name": "only", "expression": expression}]
    code, reported = await ask.hook(VALIDATING, rule("", "v1", "configmaps"), matchConditions=conditions)
    assert code == 201, reported
    while ask.server.hub.seen < ask.server.config.store.revision:
        await asyncio.sleep(0)
    maker = User("maker", ("system:authenticated",))
    code, reported = await ask("POST", MAPS, {"metadata": {"name": "c"}}, user=maker)
    assert code == 201, reported
    assert bool(ask.hooks.asked) == asked


async def test_conditions_that_cannot_work_are_refused_with_the_configuration(ask: Hooked) -> None:
    conditions = [{"name": "a", "expression": "objekt.x == 1"}, {"name": "a", "expression": "true"}, {"name": "b"}]
    code, reported = await ask.hook(VALIDATING, rule("", "v1", "configmaps"), matchConditions=conditions)
    assert code == 422
    causes = {cause["field"]: cause["message"] for cause in reported["details"]["causes"]}
    assert "undeclared reference to 'objekt'" in causes["webhooks[0].matchConditions[0].expression"]
    assert causes["webhooks[0].matchConditions[1].name"] == 'Duplicate value: "a"'
    assert causes["webhooks[0].matchConditions[2].expression"] == "Required value"


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"clientConfig": {"url": "https://me@x/y?q#f"}}, ["clientConfig.url"] * 3),
        ({"clientConfig": {"url": "https:///y"}}, ["clientConfig.url"]),
        ({"clientConfig": {"service": {"name": "x"}}}, ["clientConfig.service.namespace"]),
        (
            {"clientConfig": {"service": {"name": "x", "namespace": "y", "port": 0, "path": "a//b"}}},
            ["clientConfig.service.port", *["clientConfig.service.path"] * 3],
        ),
        ({"admissionReviewVersions": ["v9"]}, ["admissionReviewVersions"]),
        ({"admissionReviewVersions": ["v1", "v1"]}, ["admissionReviewVersions[1]"]),
        (
            {"rules": [{"operations": ["*", "GET"], "apiGroups": ["*", "x"], "apiVersions": [""], "resources": ["*"]}]},
            ["rules[0].operations", "rules[0].apiGroups", "rules[0].operations[1]", "rules[0].apiVersions[0]"],
        ),
        (
            {
                "rules": [
                    {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/*", "pods/log"]}
                ]
            },
            ["rules[0].resources[1]"],
        ),
    ],
)
async def test_hooks_that_can_never_work_are_refused(ask: Hooked, change: Object, fields: list[str]) -> None:
    made = ask.hooks.configuration(VALIDATING, "h", [rule("", "v1", "pods")])
    made["webhooks"][0].update(change)
    code, reported = await ask("POST", f"{HOOKS}/{VALIDATING.lower()}s", made)
    assert code == 422, reported
    assert [cause["field"] for cause in reported["details"]["causes"]] == [f"webhooks[0].{field}" for field in fields]


async def test_a_service_may_be_requested_at_its_root(ask: Hooked) -> None:
    for name, path in (("a", ""), ("b", "/"), ("c", "/deep/er/")):
        made = ask.hooks.configuration(VALIDATING, name, [rule("example.com", "v1", "things")])
        made["webhooks"][0]["clientConfig"] = {"service": {"name": "x", "namespace": "y", "path": path}}
        assert (await ask("POST", f"{HOOKS}/{VALIDATING.lower()}s", made))[0] == 201


async def test_older_hooks_are_called_in_the_version_they_support(ask: Hooked) -> None:
    patch = base64.b64encode(b'[{"op":"add","path":"/data","value":{"by":"hook"}}]').decode()
    ask.hooks.answers["h"] = lambda asked: {"allowed": True, "patch": patch, "uid": ""}
    versions = ["v0", "v1beta1", "v1"]
    code, reported = await ask.hook(MUTATING, rule("", "v1", "configmaps"), admissionReviewVersions=versions)
    assert code == 201, reported
    code, made = await ask("POST", MAPS, {"metadata": {"name": "c"}})
    assert (code, made["data"]) == (201, {"by": "hook"})
