"""Strategic merge patch: lists merge by key, directives are applied, invalid patches are rejected."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from podfit.api.patches import STRATEGIC, patch_object, strategic
from podfit.api.schema import type_named
from podfit.api.status import ApiError

POD = type_named("Pod")
LIVE: dict[str, Any] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "p", "labels": {"a": "1"}, "finalizers": ["x", "y"]},
    "spec": {
        "containers": [
            {"name": "a", "image": "1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            {"name": "b", "image": "2"},
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "k"}],
        "nodeSelector": {"x": "y"},
    },
}


def merged(patch: Any) -> Any:
    before = deepcopy(LIVE)
    made = strategic.apply(LIVE, json.dumps(patch).encode(), POD)
    assert before == LIVE
    return made


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["name"] for item in items]


def refused(patch: Any) -> tuple[int, str]:
    with pytest.raises(ApiError) as caught:
        merged(patch)
    return caught.value.code, caught.value.message


def test_new_list_items_come_as_early_as_the_order_of_the_patch_allows() -> None:
    assert names(merged({"spec": {"containers": [{"name": "n"}]}})["spec"]["containers"]) == ["n", "a", "b"]


def test_list_items_merge_by_key_and_new_ones_are_added() -> None:
    made = merged({"spec": {"containers": [{"name": "b", "image": "3"}, {"name": "c"}]}})["spec"]["containers"]
    assert names(made) == ["a", "b", "c"]
    assert made[1] == {"name": "b", "image": "3"}


def test_nested_lists_merge_too() -> None:
    patch = {"spec": {"containers": [{"name": "a", "env": [{"name": "B", "value": "9"}]}]}}
    assert merged(patch)["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "9"}]


def test_items_can_be_deleted_and_lists_replaced() -> None:
    assert names(merged({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}})["spec"]["containers"]) == ["b"]
    replaced = {"spec": {"containers": [{"name": "z"}, {"$patch": "replace"}]}}
    assert merged(replaced)["spec"]["containers"] == [{"name": "z"}]


def test_lists_without_a_key_are_replaced() -> None:
    assert merged({"spec": {"tolerations": [{"key": "z"}]}})["spec"]["tolerations"] == [{"key": "z"}]


def test_primitive_lists_unite_and_can_lose_values() -> None:
    assert merged({"metadata": {"finalizers": ["z", "x"]}})["metadata"]["finalizers"] == ["z", "x", "y"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}
    assert merged(patch)["metadata"]["finalizers"] == ["y"]


def test_element_order_is_obeyed_with_the_servers_own_in_place() -> None:
    patch = {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}
    assert names(merged(patch)["spec"]["containers"]) == ["b", "a"]
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}],
            "containers": [{"name": "c", "image": "n"}],
        }
    }
    assert names(merged(patch)["spec"]["containers"]) == ["c", "a", "b"]


def test_retain_keys_clears_the_rest() -> None:
    patch = {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}}
    assert merged(patch)["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/"}}]
    patch = {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name"], "hostPath": {}}]}}
    assert refused(patch) == (400, "invalid patch format of retainKeys")


def test_maps_can_be_replaced_or_emptied_by_directive_and_nulls_delete() -> None:
    replaced = {"metadata": {"labels": {"$patch": "replace", "b": "2"}}}
    assert merged(replaced)["metadata"]["labels"] == {"b": "2"}
    assert merged({"metadata": {"labels": {"$patch": "delete"}}})["metadata"]["labels"] == {}
    assert "labels" not in merged({"metadata": {"labels": None, "annotations": None}})["metadata"]


def test_new_values_carry_no_nulls_and_no_maps_with_a_directive() -> None:
    affinity = {"nodeAffinity": None, "podAffinity": {"$patch": "replace"}}
    made = merged({"spec": {"affinity": affinity, "securityContext": {"$patch": "replace", "runAsUser": 1}}})["spec"]
    assert made["affinity"] == {} and "securityContext" not in made


def test_directives_with_nothing_to_apply_to_are_unknown_fields() -> None:
    element = {"name": "n", "image": "x", "securityContext": {"$patch": "replace"}, "env": None}
    patch = {"spec": {"affinity": {"$retainKeys": []}, "containers": [element]}}
    made = patch_object(LIVE, json.dumps(patch).encode(), STRATEGIC, POD)
    assert made.warnings == [
        'unknown field "spec.affinity.$retainKeys"',
        'unknown field "spec.containers[0].securityContext.$patch"',
    ]
    assert made.obj["spec"]["affinity"] == {} and made.obj["spec"]["containers"][0]["securityContext"] == {}


@pytest.mark.parametrize(
    ("patch", "answer"),
    [
        (
            {"spec": {"containers": [{"resources": {}}]}},
            (500, "map: map[resources:map[]] does not contain declared merge key: name"),
        ),
        (
            {"spec": {"containers": [{"name": "a", "$patch": "frob"}]}},
            (500, "unknown patch type: frob in map: map[$patch:frob name:a]"),
        ),
        (
            {"spec": {"tolerations": ["c", None]}, "metadata": {"finalizers": ["z", 1]}},
            (500, "list element types are not identical: [[x y] [z 1]]"),
        ),
        (
            {"spec": {"volumes": ["c", None]}},
            (500, "list element types are not identical: [[map[emptyDir:map[] name:v]] [c <nil>]]"),
        ),
        ({"metadata": {"$patch": "frob"}}, (500, "unknown patch type: frob in map: map[$patch:frob]")),
        ([], (400, "json: cannot unmarshal array into Go value of type map[string]interface {}")),
    ],
)
def test_nonsense_is_refused(patch: Any, answer: tuple[int, str]) -> None:
    assert refused(patch) == answer


@pytest.mark.parametrize(
    ("order", "given", "why"),
    [
        ([{"name": "a"}, {}], None, "map: map[] does not contain declared merge key: name"),
        (["a"], [{"name": "a"}], "expected a map[string]interface {}, but received a string"),
        ([{"name": "a"}, None], None, "value for key 1 is not a map"),
    ],
)
def test_an_order_with_an_element_without_a_name_is_refused(order: Any, given: Any, why: str) -> None:
    patch = {"$setElementOrder/containers": order} | ({"containers": given} if given else {})
    assert refused({"spec": patch}) == (500, why)


def test_an_order_that_names_nothing_contradicts_nothing() -> None:
    patch = {"spec": {"$setElementOrder/containers": [], "containers": [{"name": "b", "image": "n"}]}}
    assert names(merged(patch)["spec"]["containers"]) == ["a", "b"]


def test_a_patch_that_contradicts_its_own_order_is_refused() -> None:
    patch = {"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}}
    code, message = refused(patch)
    assert code == 500
    assert message.startswith("The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n")


def test_the_result_must_fit_the_type() -> None:
    with pytest.raises(ApiError) as caught:
        patch_object(LIVE, b'{"spec": "x"}', STRATEGIC, POD)
    body = 'Invalid value: "map[spec:x]": cannot restore struct from: string'
    assert caught.value.code == 422
    assert caught.value.message == f' "" is invalid: patch: {body}'
    assert caught.value.details == {"causes": [{"reason": "FieldValueInvalid", "message": body, "field": "patch"}]}
