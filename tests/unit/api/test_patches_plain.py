"""JSON patch and JSON merge patch, as the API server reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podfit.api.patches import JSON_PATCH, MERGE_PATCH, json_patch, merge_patch, patch_object
from podfit.api.schema import type_named
from podfit.api.status import ApiError

DOC: dict[str, Any] = {"a": {"b": [1, 2, 3], "c/d": "x", "e~f": None}, "g": "h"}


def patched(*operations: dict[str, Any]) -> Any:
    return json_patch.apply(DOC, json.dumps(operations).encode())


def rejected(*operations: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as caught:
        patched(*operations)
    assert (caught.value.code, caught.value.reason, caught.value.details) == (422, "Invalid", {})
    assert caught.value.message == "the server rejected our request due to an error in our request"


def test_operations_apply_in_order() -> None:
    made = patched(
        {"op": "test", "path": "/a/b/0", "value": 1},
        {"op": "add", "path": "/a/b/-", "value": 4},
        {"op": "add", "path": "/a/b/0", "value": 0},
        {"op": "remove", "path": "/a/b/1"},
        {"op": "replace", "path": "/a/c~1d", "value": "y"},
        {"op": "move", "from": "/g", "path": "/z"},
        {"op": "copy", "from": "/z", "path": "/a/e~0f"},
    )
    assert made == {"a": {"b": [0, 2, 3, 4], "c/d": "y", "e~f": "h"}, "z": "h"}


def test_the_document_is_left_alone() -> None:
    before = json.dumps(DOC)
    patched({"op": "remove", "path": "/a/b/0"}, {"op": "add", "path": "/a/new", "value": 1})
    assert json.dumps(DOC) == before


def test_negative_positions_count_from_the_end() -> None:
    assert patched({"op": "remove", "path": "/a/b/-1"})["a"]["b"] == [1, 2]


def test_the_root_can_be_replaced_and_tested_only() -> None:
    assert patched({"op": "replace", "path": "", "value": {}}) == {}
    assert patched({"op": "test", "path": "", "value": DOC}) == DOC
    rejected({"op": "add", "path": "", "value": {}})
    rejected({"op": "remove", "path": ""})


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/nope"},
        {"op": "replace", "path": "/a/b/9", "value": 1},
        {"op": "add", "path": "/nope/x", "value": 1},
        {"op": "add", "path": "/a/b/9", "value": 1},
        {"op": "add", "path": "/g/x", "value": 1},
        {"op": "copy", "from": "/nope/y", "path": "/x"},
        {"op": "move", "from": "/nope", "path": "/x"},
        {"op": "test", "path": "/a/b/0", "value": True},
        {"op": "test", "path": "/g", "value": "other"},
        {"op": "frob", "path": "/g"},
        {"path": "/g"},
        {"op": "remove"},
    ],
)
def test_operations_that_do_not_apply_are_rejected(operation: dict[str, Any]) -> None:
    rejected(operation)


def test_a_missing_member_counts_as_null() -> None:
    assert patched({"op": "test", "path": "/nope", "value": None}) == DOC
    assert patched({"op": "copy", "from": "/nope", "path": "/x"}) == {**DOC, "x": None}
    assert patched({"op": "replace", "path": "/nope", "value": 1}) == {**DOC, "nope": 1}


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"op":"add"}', "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (b"nonsense", "invalid character 'o' in literal null (expecting 'u')"),
        (b'[{"op":1}]', "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
    ],
)
def test_an_invalid_json_patch_is_a_bad_request(raw: bytes, why: str) -> None:
    with pytest.raises(ApiError) as caught:
        json_patch.apply(DOC, raw)
    assert (caught.value.code, caught.value.message) == (400, f"error decoding patch: {why}")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"{}", "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        (b'[{"op": "test"}, 5]', "json: cannot unmarshal number into Patch.1 of type jsonpatch.Operation"),
        (b"oops", "invalid character 'o' looking for beginning of value"),
        (b'[{"op": 5}]', "the server rejected our request due to an error in our request"),
    ],
)
def test_where_unknown_fields_are_ignored_a_json_patch_is_read_once(raw: bytes, why: str) -> None:
    with pytest.raises(ApiError) as refusal:
        patch_object(DOC, raw, JSON_PATCH, type_named("Pod"), field_validation="Ignore")
    assert refusal.value.message == why


def test_too_many_operations_are_too_large() -> None:
    with pytest.raises(ApiError) as caught:
        json_patch.apply(DOC, json.dumps([{"op": "test", "path": "/g", "value": "h"}] * 10001).encode())
    assert caught.value.code == 413


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "foo"}, {"a": {"b": None}}, {"a": {}}),
    ],
)
def test_merge_patch_follows_the_rfcs_examples(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch.apply(target, json.dumps(patch).encode()) == result


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"null", "Invalid JSON Patch"),
        (b'{"spec": ', "error decoding patch: unexpected end of JSON input"),
        (b"[]", "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ],
)
def test_an_invalid_merge_patch_is_a_bad_request(raw: bytes, why: str) -> None:
    with pytest.raises(ApiError) as caught:
        merge_patch.apply(DOC, raw)
    assert (caught.value.code, caught.value.message) == (400, why)


def test_a_result_of_the_wrong_type_quotes_the_patched_object() -> None:
    live = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m"}}
    with pytest.raises(ApiError) as caught:
        patch_object(live, b'{"data": {"k": 1}}', MERGE_PATCH, type_named("ConfigMap"))
    assert caught.value.code == 422
    why = "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    quoted = json.dumps(json.dumps({**live, "data": {"k": 1}}, separators=(",", ":"), sort_keys=True))
    assert caught.value.message == f' "" is invalid: patch: Invalid value: {quoted}: {why}'


def test_unknown_and_duplicate_fields_of_patches_follow_field_validation() -> None:
    live = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m"}}
    struct = type_named("ConfigMap")
    raw = b'{"dta": {}, "data": {"k": "1", "k": "2"}}'
    made = patch_object(live, raw, MERGE_PATCH, struct)
    assert made.warnings == ['json merge patch duplicate field "data.k"', 'unknown field "dta"']
    assert made.obj["data"] == {"k": "2"}
    with pytest.raises(ApiError, match="strict decoding error"):
        patch_object(live, raw, MERGE_PATCH, struct, field_validation="Strict")
    assert patch_object(live, raw, MERGE_PATCH, struct, field_validation="Ignore").warnings == []
    raw = b'[{"op": "add", "path": "/data", "value": {}, "why": "x"}]'
    assert patch_object(live, raw, JSON_PATCH, struct).warnings == ['json patch unknown field "[0].why"']


def test_operations_are_typed_before_they_are_counted_and_null_names_no_operation() -> None:
    many = [{"op": "test", "path": 7}] + [{"op": "test", "path": "/g", "value": "h"}] * 10_000
    with pytest.raises(ApiError) as caught:
        patched(*many)
    assert (caught.value.code, "jsonPatchOp.path of type string" in caught.value.message) == (400, True)
    for name in ("op", "path", "from"):
        rejected({"op": "copy", "from": "/g", "path": "/z", name: None})


def test_nulls_inside_new_values_of_a_merge_patch_go_but_elements_stay() -> None:
    patch = {"n": [{"x": None, "y": 1}, None], "o": {"p": None}}
    assert merge_patch.apply({}, json.dumps(patch).encode()) == {"n": [{"y": 1}, None], "o": {}}
