"""Custom resources: pruning, defaults, validation with apiextensions' messages, and their type for apply."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from podfit.api.patches.apply import apply_patch
from podfit.api.registry.kinds import VPA, Kind
from podfit.api.schema import type_of
from podfit.api.schema.custom.structural import CustomSchema, custom_struct
from podfit.api.schema.decoding.decode import decode
from podfit.api.schema.decoding.scalars import Unreadable
from podfit.api.status import ApiError, FieldError, required, unprocessable

VECTORS = Path(os.environ.get("PODFIT_VECTORS", Path(__file__).parents[3] / ".." / "shared" / "vectors")) / "api"
THING = Kind("example.com", "v1", "Thing", "things", True, custom=True)


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


def complaints(value: Any, **properties: Any) -> list[str]:
    return [str(error) for error in CustomSchema(schema(**properties)).validate({"spec": value})]


def test_unknown_fields_are_pruned_and_named() -> None:
    custom = CustomSchema(
        schema(a={"type": "string"}, free={"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    )
    made, unknown = custom.prune(
        {
            "apiVersion": "example.com/v1",
            "kind": "Thing",
            "metadata": {"name": "x", "bogus": 1},
            "spec": {"a": "1", "b": 2, "free": {"any": {"thing": 1}}},
        }
    )
    assert made["spec"] == {"a": "1", "free": {"any": {"thing": 1}}}
    assert made["metadata"] == {"name": "x"}
    assert unknown == ["metadata.bogus", "spec.b"]


def test_maps_and_lists_are_pruned_inside() -> None:
    item = {"type": "object", "properties": {"a": {"type": "string"}}}
    custom = CustomSchema(
        schema(l={"type": "array", "items": item}, m={"type": "object", "additionalProperties": item})
    )
    made, unknown = custom.prune({"spec": {"l": [{"a": "1", "b": 1}], "m": {"k": {"c": 1}}}})
    assert made["spec"] == {"l": [{"a": "1"}], "m": {"k": {}}}
    assert unknown == ["spec.l[0].b", "spec.m.k.c"]


def test_embedded_resources_keep_their_meta() -> None:
    custom = CustomSchema(schema(t={"type": "object", "x-kubernetes-embedded-resource": True}))
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "other": 1}
    made, unknown = custom.prune({"spec": {"t": obj}})
    assert made["spec"]["t"] == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
    assert unknown == ["spec.t.other"]


def embedding() -> CustomSchema:
    return CustomSchema(
        schema(
            t={
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            }
        )
    )


def test_the_metadata_of_embedded_resources_has_no_unknown_fields() -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "odd": 1, "creationTimestamp": None},
        "other": 1,
    }
    made, unknown = embedding().prune({"spec": {"t": obj, "more": 1}})
    assert made["spec"]["t"] == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "other": 1}
    assert unknown == ["spec.more", "spec.t.metadata.odd"]
    with pytest.raises(Unreadable, match="spec.t.kind: Invalid value: 1: must be a string"):
        embedding().prune({"spec": {"t": {"kind": 1}}})


@pytest.mark.parametrize(
    ("obj", "wanted"),
    [
        ({}, ["spec.t.apiVersion: Required value", "spec.t.kind: Required value"]),
        (
            {"apiVersion": "", "kind": ""},
            [
                'spec.t.apiVersion: Invalid value: "": must not be empty',
                'spec.t.kind: Invalid value: "": must not be empty',
            ],
        ),
        (
            {"apiVersion": "a/b/c", "kind": "K", "metadata": {"name": "x"}},
            [
                'spec.t.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
                "spec.t.metadata.name: Required value: x",
            ],
        ),
    ],
)
def test_embedded_resources_have_a_type_and_valid_metadata(obj: dict[str, Any], wanted: list[str]) -> None:
    def check(metadata: dict[str, Any]) -> list[FieldError]:
        return [] if metadata["name"] == "fakename" else [required("metadata.name", metadata["name"])]

    assert [str(error) for error in embedding().validate({"spec": {"t": obj}}, check=check)] == wanted


def test_the_limits_of_integers_are_truncated() -> None:
    number = {"type": "number", "minimum": 1.5, "maximum": 3.5, "exclusiveMaximum": True}
    assert complaints({"n": 3.4}, n=number) == []
    assert complaints({"n": 1}, n=number) == []
    assert complaints({"n": 3}, n=number) == ["spec.n: Invalid value: 3: spec.n in body should be less than 3"]


def test_defaults_fill_missing_and_forbidden_null_values() -> None:
    custom = CustomSchema(
        schema(
            a={"type": "string", "default": "x"},
            b={"type": "object", "default": {}, "properties": {"c": {"type": "integer", "default": 3}}},
            n={"type": "string", "nullable": True, "default": "y"},
            o={"type": "string"},
        )
    )
    obj: dict[str, Any] = {"spec": {"a": None, "n": None, "o": None}}
    custom.default(obj)
    assert obj == {"spec": {"a": "x", "b": {"c": 3}, "n": None}}


@pytest.mark.parametrize(
    ("rule", "value", "why"),
    [
        ({"type": "string"}, 1, 'Invalid value: "integer": spec.f in body must be of type string: "integer"'),
        ({"type": "integer"}, True, 'Invalid value: "boolean": spec.f in body must be of type integer: "boolean"'),
        (
            {"type": "integer", "format": "int32"},
            True,
            'Invalid value: "": spec.f in body must be of type int32: ""',
        ),
        (
            {"type": "string", "format": "date"},
            5,
            'Invalid value: "int64": spec.f in body must be of type date: "int64"',
        ),
        ({"type": "integer", "multipleOf": 5}, 7, "Invalid value: 7: spec.f in body should be a multiple of 5"),
        (
            {"type": "number", "multipleOf": 0.5},
            7,
            "Invalid value: 0: factor MultipleOf declared for spec.f must be positive: 0",
        ),
        (
            {"type": "number", "maximum": 1},
            9223372036854775808,
            "Invalid value: 9.223372036854776e+18: spec.f in body should be less than or equal to 1",
        ),
        (
            {"type": "string", "format": "k8s-short-name"},
            "A b",
            'Invalid value: "A b": spec.f in body must be of type k8s-short-name: "A b"',
        ),
        (
            {"type": "string", "format": "hostname"},
            "1.2.3.4",
            'Invalid value: "1.2.3.4": spec.f in body must be of type hostname: "1.2.3.4"',
        ),
        ({"type": "string"}, None, 'Invalid value: "null": spec.f in body must be of type string: "null"'),
        ({"type": "string", "enum": ["a", "b"]}, "c", 'Unsupported value: "c": supported values: "a", "b"'),
        ({"type": "integer", "minimum": 1}, 0, "Invalid value: 0: spec.f in body should be greater than or equal to 1"),
        (
            {"type": "number", "maximum": 2, "exclusiveMaximum": True},
            2,
            "Invalid value: 2: spec.f in body should be less than 2",
        ),
        ({"type": "integer", "multipleOf": 3}, 4, "Invalid value: 4: spec.f in body should be a multiple of 3"),
        ({"type": "string", "maxLength": 2}, "abc", "Too long: may not be more than 2 bytes"),
        ({"type": "string", "minLength": 2}, "a", 'Invalid value: "a": spec.f in body should be at least 2 chars long'),
        ({"type": "string", "pattern": "^b"}, "a", "Invalid value: \"a\": spec.f in body should match '^b'"),
        (
            {"type": "string", "format": "date-time"},
            "a",
            'Invalid value: "a": spec.f in body must be of type date-time: "a"',
        ),
        (
            {"type": "array", "maxItems": 1, "items": {"type": "integer"}},
            [1, 2],
            "Too many: 2: must have at most 1 item",
        ),
        ({"type": "array", "minItems": 1}, [], "Invalid value: 0: spec.f in body should have at least 1 items"),
    ],
)
def test_values_are_checked(rule: dict[str, Any], value: Any, why: str) -> None:
    assert complaints({"f": value}, f=rule) == [f"spec.f: {why}"]


@pytest.mark.parametrize(
    ("rule", "value", "complaint"),
    [
        ({"type": "integer", "format": "int32"}, 2147483648, "with format int32"),
        ({"type": "integer"}, 1.5, "(default format)"),
        ({"type": "integer"}, 9223372036854775808, "(default format)"),
        ({"type": "integer", "format": "int64"}, 1e20, "with format int64"),
    ],
    ids=["too large for int32", "a fraction", "too large for int64", "too large for an exact float"],
)
def test_a_number_outside_its_format_is_named_with_it(rule: dict[str, Any], value: Any, complaint: str) -> None:
    expected = f'<nil>: Invalid value: "": Checked value must be of type integer {complaint} in spec.f'
    assert complaints({"f": value}, f=rule)[-1] == expected


def test_a_number_may_fill_its_format() -> None:
    for value in (-2147483648, 2147483647, 2.0):
        assert complaints({"f": value}, f={"type": "integer", "format": "int32"}) == []


def test_errors_of_a_status_update_name_fields_within_the_status() -> None:
    rows = {"type": "array", "items": {"type": "string", "pattern": "^a+$"}}
    status = {"type": "object", "properties": {"rows": rows, "small": {"type": "integer", "format": "int32"}}}
    custom = CustomSchema({"type": "object", "properties": {"status": status}})
    obj = {"status": {"rows": ["b"], "small": 1 << 31}}
    assert list(map(str, custom.validate(obj, {}, "status"))) == [
        "status.rows[0]: Invalid value: \"b\": rows[0] in body should match '^a+$'",
        'status: Invalid value: "": Checked value must be of type integer with format int32 in small',
    ]
    (whole,) = custom.validate({"status": "x"}, {}, "status")
    assert str(whole) == 'status: Invalid value: "string":  in body must be of type object: "string"'


def test_metadata_of_the_wrong_type_is_named_without_its_place() -> None:
    with pytest.raises(Unreadable, match=r"Go struct field ObjectMeta\.labels of type string"):
        CustomSchema(schema()).prune({"metadata": {"labels": {"a": 5}}})


def test_an_element_of_a_keyed_list_that_is_not_an_object_is_refused() -> None:
    rule = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    found = complaints({"f": [1, 1]}, f={**rule, "items": {"type": "object", "properties": {"k": {"type": "string"}}}})
    assert found[-1] == "spec.f[0]: Invalid value: 1: must be an object for an array of list-type map"


def test_required_fields_and_duplicates_are_checked() -> None:
    rule = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
    }
    assert complaints({"f": [{}]}, f=rule) == ["spec.f[0].name: Required value"]
    assert complaints({"f": [{"name": "a"}, {"name": "a"}]}, f=rule) == ['spec.f[1]: Duplicate value: {"name":"a"}']
    assert complaints({"f": ["a", "a"]}, f={"type": "array", "x-kubernetes-list-type": "set"}) == [
        'spec.f[1]: Duplicate value: "a"'
    ]


def test_combinations_are_checked() -> None:
    rule = {"oneOf": [{"minimum": 5}, {"maximum": 3}], "type": "integer"}
    assert complaints({"f": 6}, f=rule) == []
    assert complaints({"f": 4}, f=rule)[0].endswith(
        '"spec.f" must validate one and only one schema (oneOf). Found none valid'
    )
    assert complaints({"f": 4}, f={"not": {"minimum": 3}})[0].endswith('"spec.f" must not validate the schema (not)')


def test_rules_are_evaluated_and_wait_for_the_rest_to_be_right() -> None:
    rule = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.a < self.b", "message": "a must be less"}],
    }
    assert complaints({"f": {"a": 1, "b": 2}}, f=rule) == []
    assert complaints({"f": {"a": 2, "b": 1}}, f=rule) == ["spec.f: Invalid value: a must be less"]
    assert "some validation rules were not checked" in complaints({"f": {"a": "x", "b": 1}}, f=rule)[-1]


def test_transition_rules_apply_to_updates_only() -> None:
    rule = {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "no shrinking"}]}
    custom = CustomSchema(schema(f=rule))
    assert custom.validate({"spec": {"f": 1}}) == []
    assert [str(e) for e in custom.validate({"spec": {"f": 1}}, {"spec": {"f": 2}})] == [
        "spec.f: Invalid value: 1: no shrinking"
    ]


def test_unchanged_parts_are_not_held_against_an_update() -> None:
    custom = CustomSchema(schema(f={"type": "string", "maxLength": 1}, g={"type": "string"}))
    old = {"spec": {"f": "long", "g": "a"}}
    assert custom.validate({"spec": {"f": "long", "g": "b"}}, old) == []
    assert custom.validate({"spec": {"f": "longer", "g": "a"}}, old) != []


def test_custom_resources_can_be_applied() -> None:
    struct = custom_struct(THING, schema(a={"type": "string"}, l={"type": "array", "items": {"type": "string"}}))
    wanted = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "x"},
        "spec": {"a": "1", "l": ["x"]},
    }
    live = apply_patch(None, wanted, struct, "m", False, "2026-01-01T00:00:00Z")
    assert live["metadata"]["managedFields"][0]["fieldsV1"] == {"f:spec": {"f:a": {}, "f:l": {}}}
    with pytest.raises(ApiError, match="field not declared in schema"):
        apply_patch(live, {**wanted, "spec": {"z": 1}}, struct, "m", False, "2026-01-01T00:00:00Z")


@pytest.mark.skipif(not VECTORS.is_dir(), reason="the recorded vectors are not here")
def test_recorded_refusals_of_vertical_pod_autoscalers() -> None:
    definition = json.loads((VECTORS / "fixtures" / "verticalpodautoscalers.crd.json").read_text())
    [version] = [item for item in definition["spec"]["versions"] if item["name"] == "v1"]
    vpa = replace(VPA, struct=custom_struct(VPA, version["schema"]["openAPIV3Schema"]))
    steps = json.loads((VECTORS / "vpa-invalid.json").read_text())["steps"]
    assert sum(_replayed(vpa, step) for step in steps) > 10


def _replayed(vpa: Kind, step: dict[str, Any]) -> bool:
    """Whether the step is rejected because of the body alone; then the result must be equal."""
    want = step["response"].get("body") or {}
    if (
        step["method"] != "POST"
        or VPA.group not in step["path"]
        or "metadata.name" in want.get("message", "metadata.name")
    ):
        return False
    with pytest.raises(ApiError) as caught:
        _created(vpa, json.dumps(step["body"]).encode(), (step.get("query") or {}).get("fieldValidation", "Warn"))
    assert caught.value.to_status() == want
    return True


def _created(vpa: Kind, raw: bytes, mode: str) -> None:
    struct = decode(raw, vpa, field_validation=mode)
    custom: CustomSchema = _schema_of(vpa)
    custom.default(struct.obj)
    errors = custom.validate(struct.obj)
    if errors:
        raise unprocessable(VPA.kind, struct.obj["metadata"]["name"], errors, VPA.group)


def _schema_of(kind: Kind) -> CustomSchema:
    struct = type_of(kind)
    assert struct is not None
    return struct.cache["custom"]


def test_transition_rules_find_the_old_items_of_lists_with_keys_and_name_keys_of_maps() -> None:
    number = {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "no shrinking"}]}
    item = {"type": "object", "properties": {"n": {"type": "string"}, "v": number}, "required": ["n"]}
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"]}
    properties = {
        "keyed": {"type": "array", "items": item, **keyed},
        "plain": {"type": "array", "items": item},
        "map": {"type": "object", "additionalProperties": number},
        "whole": {"type": "object", "properties": {"v": number}, "x-kubernetes-map-type": "atomic"},
    }
    schema = CustomSchema({"type": "object", "properties": properties})

    def made(first: int, second: int) -> dict[str, Any]:
        return {
            "keyed": [{"n": "b", "v": second}, {"n": "a", "v": first}],
            "plain": [{"n": "a", "v": first}],
            "map": {"a.b": first},
            "whole": {"v": first},
        }

    old = made(3, 1)
    old["keyed"].reverse()
    found = [str(error) for error in schema.validate(made(2, 5), old)]
    # What is atomic for appliers is still the same map before and after; items of a plain list are not.
    assert found == [f"{path}: Invalid value: 2: no shrinking" for path in ("keyed[1].v", "map[a.b]", "whole.v")]


def test_a_string_gets_one_complaint_beside_that_about_its_format() -> None:
    field = {"type": "string", "minLength": 2, "pattern": "^a+$", "format": "date"}
    assert complaints({"f": "b"}, f=field) == [
        'spec.f: Invalid value: "b": spec.f in body should be at least 2 chars long',
        'spec.f: Invalid value: "b": spec.f in body must be of type date: "b"',
    ]


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"size": -5}, ".spec.size: Invalid value: -5: should be a non-negative integer"),
        ({"size": 1 << 31}, ".spec.size: Invalid value: 2147483648: should be less than or equal to 2147483647"),
        (
            {"size": "x"},
            ".spec.size: Invalid value: 0: .spec.size accessor error: x is of the type string, expected int64",
        ),
        (
            5,
            ".spec.size: Invalid value: 0: .spec.size accessor error: 5 is of the type int64, "
            "expected map[string]interface{}",
        ),
        ({}, ""),
        ({"size": 3}, ""),
    ],
    ids=["negative", "too large", "a string", "no object", "none", "fine"],
)
def test_replicas_in_scale_must_be_a_number(spec: Any, complaint: str) -> None:
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    found = CustomSchema(None, scale).validate({"spec": spec})
    assert list(map(str, found)) == ([complaint] if complaint else [])


def test_of_alternatives_for_a_number_the_first_is_complained_about() -> None:
    rule = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert [error.partition(": Invalid value: ")[2] for error in complaints({"f": 1.5}, f=rule)] == [
        '"number": spec.f in body must be of type integer,string: "number"',
        '"": "spec.f" must validate at least one schema (anyOf)',
        '"number": spec.f in body must be of type integer: "number"',
        '"": Checked value must be of type integer (default format) in spec.f',
    ]
