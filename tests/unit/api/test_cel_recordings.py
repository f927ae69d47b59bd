"""Rules are rejected, estimated and evaluated as by kube-apiserver, whose responses are recorded beside this file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from podfit.api.schema.custom.openapi_checks import definition_problems
from podfit.api.schema.custom.validation import Validator

_RECORDED = json.loads(Path(__file__).with_name("cel_recordings.json").read_text())
_REGISTERED, _EVALUATED = _RECORDED["registered"], _RECORDED["evaluated"]
_PATH = "spec.validation.openAPIV3Schema"


def _refusal(schema: dict[str, Any]) -> str:
    errors = [str(error) for error in definition_problems(schema, _PATH)]
    return errors[0] if len(errors) == 1 else "\n".join(f"* {error}" for error in errors)


@pytest.mark.parametrize("rule", _REGISTERED["rules"])
def test_a_rule_is_accepted_or_refused_in_the_same_words(rule: str) -> None:
    rules = [{"rule": rule, "message": "m"}]
    spec = {"type": "object", "properties": _REGISTERED["properties"], "x-kubernetes-validations": rules}
    assert _refusal({"type": "object", "properties": {"spec": spec}}) == _REGISTERED["rules"][rule]


@pytest.mark.parametrize("case", _RECORDED["schemas"], ids=str)
def test_sizes_in_a_schema_give_the_same_estimates(case: dict[str, Any]) -> None:
    assert _refusal(case["schema"]) == case["refusal"]


@pytest.mark.parametrize("rule", _EVALUATED["rules"])
def test_a_rule_evaluates_to_the_same(rule: str) -> None:
    part = {
        "type": "object",
        "properties": _EVALUATED["properties"],
        "x-kubernetes-validations": [{"rule": rule}],
    }
    validator = Validator({"type": "object", "properties": {"part": part}})
    errors = [error.body for error in validator.validate({"part": _EVALUATED["value"]})]
    expected = _EVALUATED["rules"][rule]
    assert errors == ([] if expected is None else [expected])
