"""Structural schemas: every place says its type once, and logic only restricts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from podfit.api.schema.structure import structural_problems

VECTORS = Path(os.environ.get("PODFIT_VECTORS", Path(__file__).parents[3] / ".." / "shared" / "vectors")) / "api"


def problems(schema: dict[str, Any]) -> list[str]:
    return [str(error) for error in structural_problems(schema, "s")]


def spec(**rest: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"f": rest}}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({}, "s.type: Required value: must not be empty at the root"),
        ({"type": "array", "items": {"type": "string"}}, 's.type: Invalid value: "array": must be object at the root'),
        (spec(), "s.properties[f].type: Required value: must not be empty for specified object fields"),
        (spec(type="array"), "s.properties[f].items: Required value: must be specified"),
        (
            spec(type="array", items={}),
            "s.properties[f].items.type: Required value: must not be empty for specified array items",
        ),
        (
            spec(type="string", anyOf=[{"type": "string"}]),
            "s.properties[f].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            spec(type="object", additionalProperties=False),
            "s.properties[f].additionalProperties: Forbidden: additionalProperties cannot be set to false",
        ),
    ],
)
def test_what_is_not_structural_is_named(schema: dict[str, Any], why: str) -> None:
    assert problems(schema) == [why]


def test_integers_or_strings_may_say_so_twice() -> None:
    either = [{"type": "integer"}, {"type": "string"}]
    assert problems(spec(anyOf=either, **{"x-kubernetes-int-or-string": True})) == []


@pytest.mark.skipif(not VECTORS.is_dir(), reason="the recorded vectors are not here")
def test_the_autoscalers_definitions_are_structural() -> None:
    for file in sorted((VECTORS / "fixtures").glob("*.crd.json")):
        for version in json.loads(file.read_text())["spec"]["versions"]:
            assert structural_problems(version["schema"]["openAPIV3Schema"]) == []
