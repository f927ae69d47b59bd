"""Validation rules of custom resources: budgets, transitions, messages."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.cel.checking.messages import patch_messages
from podfit.api.cel.evaluation.program import Environment
from podfit.api.cel.parsing.syntax import BadExpression
from podfit.api.schema.celrules.rule_checks import rule_problems
from podfit.api.schema.custom.openapi_checks import definition_problems
from podfit.api.schema.custom.validation import Validator

_RULES = "x-kubernetes-validations"


def _schema(spec: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": spec}}


def _errors(spec: dict[str, Any], value: Any, old: Any = None) -> list[str]:
    before = None if old is None else {"spec": old}
    return [str(error) for error in Validator(_schema(spec)).validate({"spec": value}, before)]


_QUADRATIC = "self.all(x, self.all(y, x + y >= 0))"


def test_no_rule_runs_after_one_that_costs_too_much() -> None:
    items = {"type": "array", "items": {"type": "integer"}}
    spec = items | {_RULES: [{"rule": _QUADRATIC}, {"rule": "false"}]}
    why = "'operation cancelled: actual cost limit exceeded': "
    why += f"no further validation rules will be run due to call cost exceeds limit for rule: {_QUADRATIC}"
    assert _errors(spec, list(range(2000))) == [f'spec: Invalid value: "array": {why}']


def test_all_rules_of_an_object_share_a_budget() -> None:
    part = {"type": "array", "items": {"type": "integer"}, _RULES: [{"rule": _QUADRATIC}]}
    spec = {"type": "array", "items": part}
    # Each costs a little less than a million.
    errors = _errors(spec, [list(range(370))] * 20)
    why = "validation failed due to running out of cost budget, no further validation rules will be run"
    assert len(errors) == 1 and errors[0].endswith(f'Invalid value: "array": {why}')
    assert _errors(spec, [list(range(370))] * 9) == []


def test_a_message_expression_pays_from_the_same_budget() -> None:
    rule = {"rule": "false", "messageExpression": "self.map(x, self.map(y, 'a')).size() > 0 ? 'a' : 'b'"}
    spec = {"type": "array", "items": {"type": "integer"}, _RULES: [rule, {"rule": "false"}]}
    errors = _errors(spec, list(range(2000)))
    assert len(errors) == 1
    assert "no further validation rules will be run due to call cost exceeds limit for messageExpression" in errors[0]


def test_rules_about_changes_wait_for_one() -> None:
    spec = {"type": "object", "properties": {"a": {"type": "string"}}, _RULES: [{"rule": "self.a == oldSelf.a"}]}
    assert _errors(spec, {"a": "x"}) == []
    assert _errors(spec, {"a": "x"}, {"a": "x"}) == []
    assert _errors(spec, {"a": "y"}, {"a": "x"}) == ["spec: Invalid value: failed rule: self.a == oldSelf.a"]


def test_an_optional_old_value_may_be_absent() -> None:
    rule = {"rule": "oldSelf.hasValue() ? oldSelf.value() <= self : self == 0", "optionalOldSelf": True}
    spec = {"type": "integer", _RULES: [rule]}
    assert _errors(spec, 0) == [] and _errors(spec, 3, 2) == []
    assert _errors(spec, 1) == [f"spec: Invalid value: 1: failed rule: {rule['rule']}"]
    assert _errors(spec, 1, 2) == [f"spec: Invalid value: 1: failed rule: {rule['rule']}"]


def test_unchanged_invalid_fields_do_not_fail_an_update() -> None:
    inner = {"type": "object", "properties": {"b": {"type": "integer"}}, _RULES: [{"rule": "self.b > 5"}]}
    spec = {
        "type": "object",
        "properties": {"a": inner, "c": {"type": "integer"}, "l": {"type": "array", "items": inner}},
    }
    old = {"a": {"b": 1}, "c": 1, "l": [{"b": 1}]}
    assert _errors(spec, {**old, "c": 2}, old) == []
    assert len(_errors(spec, {**old, "a": {"b": 2}}, old)) == 1
    assert len(_errors(spec, {**old, "l": [{"b": 1}, {"b": 9}]}, old)) == 1, "items of such a list have no past"


def test_unchanged_invalid_fields_are_warned_of() -> None:
    small = {"type": "integer", _RULES: [{"rule": "self > 5", "message": "too small"}]}
    spec = {"type": "object", "properties": {"a": small, "b": small}}
    warnings: list[str] = []
    validator, old = Validator(_schema(spec)), {"spec": {"a": 1, "b": 1}}
    errors = validator.validate({"spec": {"a": 1, "b": 2}}, old, warnings=warnings)
    assert [str(error) for error in errors] == ["spec.b: Invalid value: 2: too small"]
    assert warnings == ["spec.a: Invalid value: 1: too small"]


def test_items_with_keys_have_a_past() -> None:
    item = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}
    item[_RULES] = [{"rule": "self.v >= oldSelf.v"}]
    spec = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": item,
    }
    old = [{"k": "a", "v": 1}, {"k": "b", "v": 5}]
    assert _errors(spec, [{"k": "b", "v": 6}, {"k": "c", "v": 0}, {"k": "a", "v": 1}], old) == []
    assert _errors(spec, [{"k": "b", "v": 2}], old) == ["spec[0]: Invalid value: failed rule: self.v >= oldSelf.v"]


def test_a_reason_and_a_path_change_the_error() -> None:
    rule = {"rule": "self.a == 'x'", "reason": "FieldValueForbidden", "fieldPath": ".a", "message": "no"}
    spec = {"type": "object", "properties": {"a": {"type": "string"}}, _RULES: [rule]}
    assert _errors(spec, {"a": "y"}) == ["spec.a: Forbidden: no"]


def test_a_rule_that_was_stored_without_compiling_fails_the_object() -> None:
    spec = {"type": "object", "properties": {}, _RULES: [{"rule": "self.gone == 1"}]}
    assert _errors(spec, {})[0].startswith('spec: Invalid value: "object": rule compile error: compilation failed:')


def test_an_old_value_of_another_type_is_an_error_and_no_exception() -> None:
    spec = {"type": "array", "items": {"type": "integer"}, _RULES: [{"rule": "self.size() >= oldSelf.size()"}]}
    errors = _errors(spec, [1], 7)
    assert len(errors) == 1 and "no such overload" in errors[0]


def test_an_unchanged_schema_may_keep_rules_that_cost_too_much_each() -> None:
    rule = [{"rule": "self.all(x, x.contains('abc'))"}]
    schema = _schema({"type": "array", "maxItems": 100, "items": {"type": "string"}, _RULES: rule})
    assert len(definition_problems(schema, "p")) == 1
    assert definition_problems(schema, "p", stored=True) == []


def test_many_rules_together_may_cost_too_much() -> None:
    item = {"type": "integer", _RULES: [{"rule": "self > 1 && self < 5 && self != 3"}]}
    spec = {"type": "object", "properties": {f"l{at}": {"type": "array", "items": item} for at in range(30)}}
    errors = [str(error) for error in rule_problems(_schema(spec), "p")]
    assert len(errors) == 5 and all("contributed to estimated rule cost total" in error for error in errors[:4])
    assert errors[4].startswith(
        "p: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget "
        "by factor of 2.4x"
    )


@pytest.mark.parametrize("name", ["Object", "Object.spec", "JSONPatch"])
def test_the_type_of_a_message_is_no_value_of_a_program(name: str) -> None:
    environment = Environment({}, messages=patch_messages)
    with pytest.raises(BadExpression) as caught:
        environment.compile(f"[{name}].size() > 0")
    assert str(caught.value) == f"program instantiation failed: reference to undefined type: {name}"
