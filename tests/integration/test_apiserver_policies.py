"""Validating admission policies: parameters, conditions, variables, failure policies, reasons and exclusions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker, serving

GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    async with serving(tmp_path) as server:
        yield Asker(server)


async def policy(ask: Asker, name: str, *validations: Any, **spec: Any) -> None:
    rows = [row if isinstance(row, dict) else {"expression": row} for row in validations]
    body = {"metadata": {"name": name}, "spec": {"matchConstraints": {"resourceRules": [RULE]}, "validations": rows}}
    body["spec"] |= spec
    code, answer = await ask("POST", f"{GROUP}/validatingadmissionpolicies", body)
    assert code == 201, answer


async def bind(ask: Asker, name: str, *actions: str, **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": list(actions or ("Deny",))}}
    body["spec"] |= spec
    code, answer = await ask("POST", f"{GROUP}/validatingadmissionpolicybindings", body)
    assert code == 201, answer


async def create(ask: Asker, name: str, **more: Any) -> tuple[int, str]:
    code, answer = await ask("POST", MAPS, {"metadata": {"name": name, **more}, "data": {"k": name}})
    return code, answer.get("message", "")


async def test_a_policy_without_a_binding_is_not_in_force(ask: Asker) -> None:
    await policy(ask, "p", "false")
    assert (await create(ask, "a"))[0] == 201
    await bind(ask, "p")
    assert await create(ask, "b") == (
        422,
        "configmaps \"b\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: "
        "failed expression: false",
    )


async def test_parameters_are_found_by_name_or_by_label(ask: Asker) -> None:
    for name, most in (("few", "1"), ("many", "9")):
        await ask("POST", MAPS, {"metadata": {"name": name, "labels": {"limit": "yes"}}, "data": {"most": most}})
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    await policy(ask, "p", "object.metadata.name.size() <= int(params.data.most)", paramKind=kind)
    await bind(ask, "p", paramRef={"name": "few", "parameterNotFoundAction": "Deny"})
    assert (await create(ask, "a"))[0] == 201
    assert (await create(ask, "long"))[0] == 422
    reference = {"selector": {"matchLabels": {"limit": "yes"}}, "parameterNotFoundAction": "Deny"}
    await ask("DELETE", f"{GROUP}/validatingadmissionpolicybindings/p")
    await bind(ask, "p", paramRef=reference)
    assert (await create(ask, "long"))[0] == 422
    await ask("DELETE", f"{MAPS}/few")
    assert (await create(ask, "long"))[0] == 201


@pytest.mark.parametrize(("action", "code"), [("Deny", 422), ("Allow", 201)])
async def test_missing_parameters_are_decided_by_the_binding(ask: Asker, action: str, code: int) -> None:
    await policy(ask, "p", "true", paramKind={"apiVersion": "v1", "kind": "ConfigMap"})
    await bind(ask, "p", paramRef={"name": "none", "parameterNotFoundAction": action})
    got, message = await create(ask, "a")
    assert got == code
    if code == 422:
        assert message.endswith(
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        )


@pytest.mark.parametrize(("failure", "code"), [("Fail", 422), ("Ignore", 201)])
async def test_an_expression_that_fails_is_decided_by_the_failure_policy(ask: Asker, failure: str, code: int) -> None:
    await policy(ask, "p", "object.data.none == 'x'", failurePolicy=failure)
    await bind(ask, "p")
    got, message = await create(ask, "a")
    assert got == code
    if code == 422:
        assert message.endswith("expression 'object.data.none == 'x'' resulted in error: no such key: none")


async def test_conditions_decide_whether_a_policy_is_evaluated(ask: Asker) -> None:
    condition = {"name": "named", "expression": "object.metadata.name.startsWith('x')"}
    await policy(ask, "p", "false", matchConditions=[condition])
    await bind(ask, "p")
    assert (await create(ask, "a"))[0] == 201
    assert (await create(ask, "xa"))[0] == 422


async def test_a_variable_that_fails_matters_only_where_it_is_used(ask: Asker) -> None:
    variables = [{"name": "bad", "expression": "object.data.none"}, {"name": "size", "expression": "size(object.data)"}]
    unused = "variables.size == 1 || variables.bad == 'x'"
    await policy(ask, "p", unused, variables=variables)
    await bind(ask, "p")
    assert (await create(ask, "a"))[0] == 201
    await policy(ask, "q", "variables.bad == 'x'", variables=variables)
    await bind(ask, "q")
    got, message = await create(ask, "b")
    assert got == 422
    assert message.endswith('composited variable "bad" fails to evaluate: no such key: none')


async def test_excluded_resources_and_names_are_not_changed(ask: Asker) -> None:
    rules = {"resourceRules": [RULE], "excludeResourceRules": [{**RULE, "resourceNames": ["free"]}]}
    await policy(ask, "p", "false", matchConstraints=rules)
    await bind(ask, "p", matchResources={"objectSelector": {"matchLabels": {"checked": "yes"}}})
    assert (await create(ask, "a"))[0] == 201
    assert (await create(ask, "b", labels={"checked": "yes"}))[0] == 422
    assert (await create(ask, "free", labels={"checked": "yes"}))[0] == 201


async def test_the_reason_of_a_validation_is_the_reason_of_the_refusal(ask: Asker) -> None:
    await policy(
        ask, "p", {"expression": "false", "reason": "Forbidden", "messageExpression": "'no ' + request.operation"}
    )
    await bind(ask, "p")
    code, answer = await ask("POST", MAPS, {"metadata": {"name": "a"}})
    assert (code, answer["reason"]) == (403, "Forbidden")
    assert answer["message"].endswith("denied request: no CREATE")


async def test_policies_do_not_apply_to_policies(ask: Asker) -> None:
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    await policy(ask, "p", "false", matchConstraints={"resourceRules": [everything]})
    await bind(ask, "p")
    assert (await create(ask, "a"))[0] == 422
    assert (await ask("DELETE", f"{GROUP}/validatingadmissionpolicies/p"))[0] == 200
    assert (await create(ask, "a"))[0] == 201


async def test_the_status_names_the_generation_in_force(ask: Asker) -> None:
    await policy(ask, "p", "true")
    _, found = await ask("GET", f"{GROUP}/validatingadmissionpolicies/p")
    assert found["status"] == {"observedGeneration": 1, "typeChecking": {}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"validations": [{"expression": "object.x"}]}, "must evaluate to bool but got dyn"),
        ({"validations": [{"expression": "variables.a"}]}, "undeclared reference to 'variables'"),
        (
            {"validations": [{"expression": "true", "messageExpression": "object.x"}]},
            "must evaluate to string but got dyn",
        ),
        (
            {"variables": [{"name": "a", "expression": "1"}], "validations": [{"expression": "variables.b"}]},
            "undefined field 'b'",
        ),
        (
            {
                "variables": [{"name": "a", "expression": "true"}],
                "matchConditions": [{"name": "c", "expression": "variables.a"}],
                "validations": [{"expression": "true"}],
            },
            "undeclared reference to 'variables'",
        ),
    ],
)
async def test_expressions_need_their_type_and_variables_that_are_declared(
    ask: Asker, spec: dict[str, Any], words: str
) -> None:
    body = {"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": [RULE]}, **spec}}
    code, status = await ask("POST", f"{GROUP}/validatingadmissionpolicies", body)
    assert code == 422 and words in status["message"]
