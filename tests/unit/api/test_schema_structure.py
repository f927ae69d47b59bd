"""Structural schemas: every node states its type once, and logical junctors only restrict."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from podfit.api.schema.custom.openapi_checks import definition_problems, openapi_problems
from podfit.api.schema.custom.structure import structural_problems

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
            {"type": "object", "additionalProperties": {"type": "string"}},
            "s.additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            spec(type="string", pattern="a("),
            's.properties[f].pattern: Invalid value: "a(": must be a valid regular expression, but isn\'t: '
            "error parsing regexp: missing closing ): `a(`",
        ),
        (
            spec(**{"type": "object", "x-kubernetes-embedded-resource": True}),
            "s.properties[f].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true "
            "without x-kubernetes-preserve-unknown-fields",
        ),
        (
            spec(type="object", allOf=[{"nullable": True}]),
            "s.properties[f].allOf[0].nullable: Forbidden: must be false to be structural",
        ),
        (
            {"type": "object", "anyOf": [{"properties": {"a": {"minLength": 1}}}]},
            "s.properties[a]: Required value: because it is defined in s.anyOf[0].properties[a]",
        ),
        (
            {"type": "object", "properties": {"metadata": {"type": "object", "description": "d"}}},
            "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, "
            "but metadata is implicitly specified",
        ),
    ],
)
def test_non_structural_schemas_are_named(schema: dict[str, Any], why: str) -> None:
    assert problems(schema) == [why]


def test_integers_or_strings_may_say_so_twice() -> None:
    either = [{"type": "integer"}, {"type": "string"}]
    assert problems(spec(anyOf=either, **{"x-kubernetes-int-or-string": True})) == []
    assert problems(spec(allOf=[{"anyOf": either}, {"maxLength": 3}], **{"x-kubernetes-int-or-string": True})) == []


def test_patterns_only_python_cannot_read_are_let_through() -> None:
    assert problems(spec(type="string", pattern=r"^\p{L}+$")) == []


def test_complaints_are_sorted() -> None:
    found = problems({"type": "object", "properties": {"b": {}, "a": {"type": "array"}}})
    assert [each.partition(":")[0] for each in found] == ["s.properties[a].items", "s.properties[b].type"]


LIST = "s.properties[f]"


def keyed(**item: Any) -> dict[str, Any]:
    items = {"type": "object", "properties": {"n": {"type": "string"}}, **item}
    return spec(**{"type": "array", "items": items, **MAP_OF_N})


MAP_OF_N = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"]}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (
            spec(type="foo"),
            f'{LIST}.type: Unsupported value: "foo": supported values: '
            '"array", "boolean", "integer", "number", "object", "string"',
        ),
        (spec(type="object", id="x"), f"{LIST}.id: Forbidden: id is not supported"),
        (
            spec(type="object", properties={"a": {"type": "string"}}, additionalProperties={"type": "string"}),
            f"{LIST}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            spec(**{"type": "object", "x-kubernetes-preserve-unknown-fields": False}),
            f"{LIST}.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
        ),
        (
            spec(**{"type": "object", "x-kubernetes-map-type": "foo"}),
            f'{LIST}.x-kubernetes-map-type: Unsupported value: "foo": supported values: "atomic", "granular"',
        ),
        (
            spec(**{"type": "string", "x-kubernetes-list-type": "atomic"}),
            f'{LIST}.type: Invalid value: "string": must be array if x-kubernetes-list-type is specified',
        ),
        (
            spec(**{"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
            f"{LIST}.items.x-kubernetes-map-type: Invalid value: null: "
            "must be atomic as item of a list with x-kubernetes-list-type=set",
        ),
        (
            keyed(),
            f"{LIST}.items.properties[n].default: Required value: this property is in x-kubernetes-list-map-keys, "
            "so it must have a default or be a required property",
        ),
        (
            keyed(required=["n"], properties={"m": {"type": "string"}}),
            f'{LIST}.x-kubernetes-list-map-keys: Invalid value: ["n"]: entries must all be names of item properties',
        ),
        (
            spec(type="object", properties={"a": {"type": "string"}}, default={"b": 1}),
            f'{LIST}.default: Invalid value: {{"b":1}}: must not have unknown fields',
        ),
        (
            {"type": "object", "properties": {"kind": {"type": "string", "default": "X"}}},
            "s.properties[kind].default: Forbidden: must not be set in top-level kind",
        ),
        (
            spec(**{"type": "object", "x-kubernetes-validations": [{"rule": "true", "message": " "}]}),
            f'{LIST}.x-kubernetes-validations[0].message: Invalid value: " ": must be non-empty if specified',
        ),
        (
            spec(**{"type": "object", "x-kubernetes-validations": [{"rule": "true", "reason": "Foo"}]}),
            f'{LIST}.x-kubernetes-validations[0].reason: Unsupported value: "Foo": supported values: '
            '"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"',
        ),
        (
            spec(**{"type": "object", "x-kubernetes-validations": [{"rule": "true", "fieldPath": ".z"}]}),
            f'{LIST}.x-kubernetes-validations[0].fieldPath: Invalid value: ".z": must be a valid path',
        ),
    ],
)
def test_invalid_fields_of_a_definition_are_named(schema: dict[str, Any], why: str) -> None:
    assert [str(error) for error in definition_problems(schema, "s")] == [why]


def test_a_rule_that_cannot_be_compiled_is_shown_with_its_go_names() -> None:
    (found,) = definition_problems(spec(**{"type": "object", "x-kubernetes-validations": [{"rule": "self >"}]}), "s")
    shown = r'{"Rule":"self \u003e","Message":"","MessageExpression":"","Reason":null,"FieldPath":"",'
    shown += '"OptionalOldSelf":null}'
    assert str(found).startswith(
        f"{LIST}.x-kubernetes-validations[0].rule: Invalid value: {shown}: compilation failed:"
    )


def test_good_lists_and_maps_are_fine() -> None:
    assert definition_problems(keyed(required=["n"]), "s") == []
    assert definition_problems(spec(type="object", additionalProperties=False), "s") == []


@pytest.mark.skipif(not VECTORS.is_dir(), reason="the recorded vectors are not here")
def test_the_autoscalers_definitions_are_fine() -> None:
    for file in sorted((VECTORS / "fixtures").glob("*.crd.json")):
        for version in json.loads(file.read_text())["spec"]["versions"]:
            assert definition_problems(version["schema"]["openAPIV3Schema"], "s") == []


@pytest.mark.parametrize(
    ("path", "valid"),
    [
        (".a", True),
        (".a.b", True),
        ("['a']['b']", True),
        (".map.anything", True),
        (".map['any.thing'].b", True),
        (".a.c", False),
        (".list[0]", False),
        (".list.a", False),
        ("a", False),
        (".", False),
        ("['a'", False),
    ],
)
def test_the_field_path_of_a_rule_leads_through_properties_and_maps(path: str, valid: bool) -> None:
    inner = {"type": "object", "properties": {"b": {"type": "string"}}}
    properties = {
        "a": inner,
        "list": {"type": "array", "items": inner},
        "map": {"type": "object", "additionalProperties": inner},
    }
    rules = [{"rule": "true", "fieldPath": path}]
    schema = {"type": "object", "properties": properties, "x-kubernetes-validations": rules}
    wanted = f's.x-kubernetes-validations[0].fieldPath: Invalid value: "{path}": must be a valid path'
    assert [str(error) for error in openapi_problems(schema, "s")] == ([] if valid else [wanted])
