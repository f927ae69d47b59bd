"""Mutating admission policies: both kinds of patches, parameters, conditions, variables, order and failure."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker, serving

GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
ON_DEPLOYMENTS = {"resourceRules": [{**RULE, "apiGroups": ["apps"], "resources": ["deployments"]}]}
_LABELLED = 'Object{metadata: Object.metadata{labels: {"a": "b"}}}'


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    async with serving(tmp_path) as server:
        yield Asker(server)


def mutation(text: str) -> dict[str, Any]:
    """A JSON patch if the expression is a list."""
    if "JSONPatch" in text:
        return {"patchType": "JSONPatch", "jsonPatch": {"expression": text}}
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}


async def policy(ask: Asker, name: str, *mutations: str, **spec: Any) -> None:
    body: dict[str, Any] = {"metadata": {"name": name}}
    body["spec"] = {
        "matchConstraints": {"resourceRules": [RULE]},
        "mutations": [mutation(text) for text in mutations],
        "reinvocationPolicy": "Never",
        **spec,
    }
    code, answer = await ask("POST", f"{GROUP}/mutatingadmissionpolicies", body)
    assert code == 201, answer


async def bind(ask: Asker, name: str, **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"policyName": name, **spec}}
    code, answer = await ask("POST", f"{GROUP}/mutatingadmissionpolicybindings", body)
    assert code == 201, answer


async def bound(ask: Asker, name: str, *mutations: str, **spec: Any) -> None:
    await policy(ask, name, *mutations, **spec)
    await bind(ask, name)


async def create(ask: Asker, name: str = "c", **more: Any) -> tuple[int, Any]:
    code, answer = await ask("POST", MAPS, {"metadata": {"name": name, **more}, "data": {"k": "v"}})
    return code, answer


async def test_a_policy_is_in_force_once_it_is_bound(ask: Asker) -> None:
    await policy(ask, "p", _LABELLED)
    assert "labels" not in (await create(ask, "before"))[1]["metadata"]
    await bind(ask, "p")
    code, made = await create(ask, "after")
    assert (code, made["metadata"]["labels"]) == (201, {"a": "b"})


async def test_a_configuration_is_merged_into_maps_and_keyed_lists(ask: Asker) -> None:
    sidecar = 'Object.spec.template.spec.containers{name: "side", image: "s"}'
    text = "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: ["
    text += f"{sidecar}]}}}}}}}}"
    await bound(ask, "p", text, matchConstraints=ON_DEPLOYMENTS)
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "m"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    code, made = await ask("POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
    assert code == 201, made
    containers = made["spec"]["template"]["spec"]["containers"]
    assert [row["name"] for row in containers] == ["main", "side"]
    assert containers[1]["terminationMessagePath"] == "/dev/termination-log", "what was added has its defaults"


async def test_a_json_patch_escapes_keys_and_takes_objects_for_values(ask: Asker) -> None:
    path = '"/metadata/annotations/" + jsonpatch.escapeKey("example.com/a")'
    whole = '[JSONPatch{op: "add", path: "/metadata/annotations", value: {}}, '
    await bound(ask, "p", whole + f'JSONPatch{{op: "add", path: {path}, value: object.metadata.name}}]')
    code, made = await create(ask)
    assert (code, made["metadata"]["annotations"]) == (201, {"example.com/a": "c"})


async def test_a_failed_test_leaves_the_object_as_it_is(ask: Asker) -> None:
    test = 'JSONPatch{op: "test", path: "/data/k", value: "other"}'
    await bound(ask, "p", f'[{test}, JSONPatch{{op: "replace", path: "/data/k", value: "new"}}]')
    assert (await create(ask))[1]["data"] == {"k": "v"}


async def test_mutations_of_a_policy_see_what_those_before_them_made(ask: Asker) -> None:
    second = '[JSONPatch{op: "add", path: "/data/seen", value: object.metadata.labels.a}]'
    await bound(ask, "p", _LABELLED, second)
    assert (await create(ask))[1]["data"] == {"k": "v", "seen": "b"}


async def test_variables_conditions_and_parameters_are_at_hand(ask: Asker) -> None:
    await ask("POST", MAPS, {"metadata": {"name": "settings"}, "data": {"team": "blue"}})
    await policy(
        ask,
        "p",
        "Object{metadata: Object.metadata{labels: variables.wanted}}",
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[{"name": "wanted", "expression": '{"team": params.data.team}'}],
        matchConditions=[{"name": "own", "expression": '!object.metadata.name.startsWith("x")'}],
    )
    await bind(ask, "p", paramRef={"name": "settings", "parameterNotFoundAction": "Deny"})
    assert (await create(ask, "a"))[1]["metadata"]["labels"] == {"team": "blue"}
    assert "labels" not in (await create(ask, "xa"))[1]["metadata"]


@pytest.mark.parametrize(("again", "seen"), [("IfNeeded", "yes"), ("Never", None)])
async def test_a_policy_is_reinvoked_if_it_requests_that(ask: Asker, again: str, seen: str | None) -> None:
    first = 'has(object.metadata.labels) ? [JSONPatch{op: "add", path: "/data/seen", value: "yes"}] : []'
    await bound(ask, "a-first", first, reinvocationPolicy=again)
    await bound(ask, "b-second", _LABELLED)
    assert (await create(ask))[1]["data"].get("seen") == seen


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Object{data: {}, nothing: 1}", "error applying patch: failed to convert patch object to typed object: "),
        (
            '[JSONPatch{op: "remove", path: "/data/none"}]',
            "JSON Patch: error in remove for path: '/data/none': Unable to remove nonexistent key: none: missing value",
        ),
        (
            "Object{metadata: Object.metadata{name: object.none}}",
            "expression 'Object{metadata: Object.metadata{name: object.none}}' resulted in error: no such key: none",
        ),
        (
            "Object{metadata: Object.wrong{}}",
            'type mismatch: unexpected type name "Object.wrong", expected "Object.metadata", which matches field name '
            "path from root Object type",
        ),
    ],
)
async def test_an_evaluation_error_denies_the_request_unless_the_policy_ignores_failures(
    ask: Asker, text: str, why: str
) -> None:
    await bound(ask, "p", text)
    code, answer = await create(ask)
    assert (code, answer["reason"]) == (403, "Invalid")
    assert answer["message"].startswith(f"policy 'p' with binding 'p' denied request: {why}")
    await ask("DELETE", f"{GROUP}/mutatingadmissionpolicies/p")
    await policy(ask, "p", text, failurePolicy="Ignore")
    assert (await create(ask))[0] == 201


async def test_lists_without_keys_may_not_be_replaced_by_a_configuration(ask: Asker) -> None:
    text = "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: ["
    text += 'Object.spec.template.spec.containers{name: "main", args: ["x"]}]}}}}'
    await bound(ask, "p", text, matchConstraints=ON_DEPLOYMENTS)
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "m"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    code, answer = await ask("POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
    assert code == 403
    assert "may not mutate atomic arrays, maps or structs: .spec.template.spec.containers[0].args" in answer["message"]


async def test_policies_are_checked_when_they_are_stored(ask: Asker) -> None:
    rule = {**RULE, "operations": ["DELETE"]}
    bad = {
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": [mutation("1"), {"patchType": "JSONPatch", "applyConfiguration": {"expression": "x"}}, {}],
    }
    code, answer = await ask("POST", f"{GROUP}/mutatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": bad})
    assert code == 422
    assert [(row["field"], row["reason"]) for row in answer["details"]["causes"]] == [
        ("spec.matchConstraints.resourceRules.operations", "FieldValueNotSupported"),
        ("spec.mutations[0].applyConfiguration.expression", "FieldValueInvalid"),
        ("spec.mutations[1].jsonPatch", "FieldValueRequired"),
        ("spec.mutations[1].applyConfiguration", "FieldValueInvalid"),
        ("spec.mutations[2].patchType", "FieldValueRequired"),
        ("spec.reinvocationPolicy", "FieldValueRequired"),
    ]
