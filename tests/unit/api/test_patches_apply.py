"""Server-side apply: ownership of fields, conflicts, and removal of fields that no manager owns any more."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from podfit.api.patches.apply import ResetFields, apply_patch, fieldset, manager_name, read_applied, track_update
from podfit.api.registry.kinds import POD
from podfit.api.schema import type_named
from podfit.api.schema.decoding.decode import decode
from podfit.api.status import ApiError

MAP, POD_TYPE = type_named("ConfigMap"), type_named("Pod")
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
RESIZE = ResetFields((("spec", "containers", "*", "resources"),), keep_only=True)


def config(data: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}, "data": data}


def applied(live: Any, manager: str, data: dict[str, Any], force: bool = False, **metadata: Any) -> dict[str, Any]:
    return apply_patch(live, config(data, **metadata), MAP, manager, force, NOW)


def owners(obj: dict[str, Any]) -> dict[tuple[str, str], Any]:
    entries = obj["metadata"].get("managedFields", [])
    return {(entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in entries}


def conflict(live: Any, manager: str, data: dict[str, Any]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        applied(live, manager, data)
    assert (caught.value.code, caught.value.reason) == (409, "Conflict")
    return caught.value


def a_pod() -> dict[str, Any]:
    raw = (
        b'{"metadata":{"name":"p","labels":{"l":"1"}},"spec":{"containers":[{"name":"c1","image":"i",'
        b'"ports":[{"containerPort":80}],"resources":{"requests":{"cpu":"100m","memory":"1Gi"}}}]}}'
    )
    return decode(raw, POD).obj


def test_applying_creates_and_owns_what_it_says() -> None:
    made = applied(None, "one", {"k": "1"}, labels={"l": "1"})
    assert made["data"] == {"k": "1"}
    [entry] = made["metadata"]["managedFields"]
    assert entry == {
        "manager": "one",
        "operation": "Apply",
        "apiVersion": "v1",
        "time": NOW,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {"f:l": {}}}, "f:data": {"f:k": {}}},
    }


def test_applying_the_same_again_returns_the_live_object() -> None:
    live = applied(None, "one", {"k": "1"})
    assert applied(live, "one", {"k": "1"}) is live


def test_equal_values_are_shared() -> None:
    live = applied(applied(None, "one", {"k": "1"}), "two", {"k": "1"})
    assert owners(live)["one", "Apply"] == owners(live)["two", "Apply"] == {"f:data": {"f:k": {}}}


def test_changing_what_others_own_is_a_conflict() -> None:
    live = applied(None, "one", {"k": "1"})
    error = conflict(live, "two", {"k": "2"})
    assert error.message == 'Apply failed with 1 conflict: conflict with "one": .data.k'
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.k"}
    assert error.details == {"causes": [cause]}


def test_several_conflicts_are_listed_by_manager() -> None:
    live = applied(applied(None, "one", {"k": "1", "only": "x"}), "two", {"k": "1"})
    lists = 'conflicts with "one":\n- .data.k\n- .data.only\nconflicts with "two":\n- .data.k'
    message = conflict(live, "three", {"k": "2", "only": "y"}).message
    assert message == f"Apply failed with 3 conflicts: {lists}"


def test_force_takes_the_field_from_its_owners() -> None:
    live = applied(applied(None, "one", {"k": "1", "only": "x"}), "two", {"k": "2"}, force=True)
    assert live["data"] == {"k": "2", "only": "x"}
    assert owners(live)["one", "Apply"] == {"f:data": {"f:only": {}}}


def test_fields_no_longer_applied_are_removed_unless_others_own_them() -> None:
    live = applied(applied(None, "one", {"k": "1", "only": "x"}, labels={"l": "1"}), "two", {"k": "1"})
    made = applied(live, "one", {})
    assert made["data"] == {"k": "1"}
    assert made["metadata"]["name"] == "a"
    assert "labels" not in made["metadata"]
    assert owners(made)["one", "Apply"] == {"f:data": {}}


def test_updates_take_over_what_they_change() -> None:
    live = applied(None, "one", {"k": "1", "j": "1"})
    new = deepcopy(live)
    new["data"]["k"] = "2"
    track_update(live, new, MAP, "hand", "Update", LATER)
    assert owners(new) == {("one", "Apply"): {"f:data": {"f:j": {}}}, ("hand", "Update"): {"f:data": {"f:k": {}}}}
    assert conflict(new, "one", {"k": "3"}).message == (
        'Apply failed with 1 conflict: conflict with "hand" using v1: .data.k'
    )


def test_an_update_that_changes_nothing_leaves_no_trace() -> None:
    live = applied(None, "one", {"k": "1"})
    new = deepcopy(live)
    track_update(live, new, MAP, "hand", "Update", LATER)
    assert new == live


def test_removed_fields_have_no_owner() -> None:
    live = applied(None, "one", {"k": "1", "j": "1"})
    new = deepcopy(live)
    del new["data"]["k"]
    track_update(live, new, MAP, "hand", "Update", LATER)
    assert owners(new) == {("one", "Apply"): {"f:data": {"f:j": {}}}}


def test_creation_owns_all_but_identity_and_empty_shells() -> None:
    pod = a_pod()
    track_update(None, pod, POD_TYPE, "kubectl-create", "Update", NOW)
    requests = {".": {}, "f:cpu": {}, "f:memory": {}}
    assert owners(pod)["kubectl-create", "Update"] == {
        "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
        "f:spec": {
            "f:containers": {
                'k:{"name":"c1"}': {
                    ".": {},
                    "f:name": {},
                    "f:image": {},
                    "f:ports": {".": {}, 'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}},
                    "f:resources": {".": {}, "f:requests": requests},
                }
            }
        },
    }


def test_resize_by_apply_owns_resources_only_and_names_the_subresource() -> None:
    pod = a_pod()
    track_update(None, pod, POD_TYPE, "", "Update", NOW)
    wanted = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c1", "resources": {"requests": {"cpu": "110m"}}}]},
    }
    with pytest.raises(ApiError) as caught:
        apply_patch(pod, wanted, POD_TYPE, "scaler", False, NOW, "resize", RESIZE)
    path = '.spec.containers[name="c1"].resources.requests.cpu'
    assert caught.value.message == f'Apply failed with 1 conflict: conflict with "unknown" using v1: {path}'
    made = apply_patch(pod, wanted, POD_TYPE, "scaler", True, NOW, "resize", RESIZE)
    assert owners(made)["scaler", "Apply"] == {
        "f:spec": {"f:containers": {'k:{"name":"c1"}': {"f:resources": {"f:requests": {"f:cpu": {}}}}}}
    }
    other = {**wanted, "spec": {"containers": [{"name": "c1", "resources": {"requests": {"cpu": "1"}}}]}}
    with pytest.raises(ApiError, match='conflict with "scaler" with subresource "resize"'):
        apply_patch(made, other, POD_TYPE, "other", False, NOW, "resize", RESIZE)


def test_list_items_are_merged_by_key_and_go_when_dropped() -> None:
    def pod(*names: str) -> dict[str, Any]:
        containers = [{"name": name, "image": "i"} for name in names]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}

    live = apply_patch(None, pod("a", "b"), POD_TYPE, "one", False, NOW)
    live = apply_patch(live, pod("c"), POD_TYPE, "two", False, NOW)
    assert [item["name"] for item in live["spec"]["containers"]] == ["a", "b", "c"]
    live = apply_patch(live, pod("b"), POD_TYPE, "one", False, NOW)
    assert [item["name"] for item in live["spec"]["containers"]] == ["b", "c"]


def test_sets_lose_what_is_no_longer_applied() -> None:
    live = applied(None, "one", {}, finalizers=["a/x", "a/y"])
    live = applied(live, "two", {}, finalizers=["a/z"])
    assert live["metadata"]["finalizers"] == ["a/x", "a/y", "a/z"]
    assert applied(live, "one", {}, finalizers=["a/y"])["metadata"]["finalizers"] == ["a/y", "a/z"]


def test_objects_from_before_get_an_owner_at_the_first_apply() -> None:
    live = config({"k": "1"})
    assert applied(live, "one", {"j": "2"})["data"] == {"k": "1", "j": "2"}
    assert conflict(live, "one", {"k": "2"}).message.endswith('"before-first-apply" using v1: .data.k')


def test_kubectl_may_take_over_from_its_client_side_self() -> None:
    note = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1"}}'
    live = config({"k": "1", "j": "1"}, annotations={"kubectl.kubernetes.io/last-applied-configuration": note})
    track_update(None, live, MAP, "kubectl-client-side-apply", "Update", NOW)
    made = applied(live, "kubectl", {"k": "2"})
    assert made["data"] == {"k": "2", "j": "1"}
    assert '"k":"2"' in made["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
    conflict(live, "kubectl", {"j": "2"})
    conflict(live, "other", {"k": "2"})


def test_old_updaters_are_folded_together() -> None:
    live = config({})
    track_update(None, live, MAP, "m00", "Update", NOW)
    for number in range(15):
        new = deepcopy(live)
        new["data"][f"k{number}"] = "x"
        track_update(live, new, MAP, f"m{number:02}", "Update", f"2026-01-01T00:00:{number:02}Z")
        live = new
    found = owners(live)
    assert len(found) == 10
    assert {"f:k0", "f:k1"} <= found["ancient-changes", "Update"]["f:data"].keys()
    assert ("m14", "Update") in found


def test_ownership_can_be_cleared_and_stays_off_until_the_next_apply() -> None:
    live = applied(None, "one", {"k": "1"})
    cleared = config({"k": "1"}, managedFields=[{}])
    track_update(live, cleared, MAP, "hand", "Update", LATER)
    assert "managedFields" not in cleared["metadata"]
    new = config({"k": "2"})
    track_update(cleared, new, MAP, "hand", "Update", LATER)
    assert "managedFields" not in new["metadata"]


@pytest.mark.parametrize("fields", ["x", 5, {"f:a": 1}, {"a": {}}, {"k:x": {}}, {"k:1": {}}])
def test_owners_that_make_no_sense_are_not_taken_from_clients(fields: Any) -> None:
    live = applied(None, "one", {"k": "1"})
    entry = {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
    new = config({"k": "1"}, managedFields=[entry])
    track_update(live, new, MAP, "hand", "Update", LATER)
    assert owners(new) == owners(live)


def test_clients_may_set_owners() -> None:
    live = applied(None, "one", {"k": "1"})
    entries = deepcopy(live["metadata"]["managedFields"])
    entries[0]["manager"] = "renamed"
    new = config({"k": "1"}, managedFields=entries)
    track_update(live, new, MAP, "hand", "Update", LATER)
    assert list(owners(new)) == [("renamed", "Apply")]


def test_clients_that_leave_managed_fields_out_do_not_lose_them() -> None:
    live = applied(None, "one", {"k": "1"})
    new = config({"k": "1", "j": "2"})
    track_update(live, new, MAP, "hand", "Update", LATER)
    assert set(owners(new)) == {("one", "Apply"), ("hand", "Update")}


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        ({"bogus": 1}, ".bogus: field not declared in schema"),
        ({"data": {"k": 5}}, ".data.k: expected string, got &value.valueUnstructured{Value:5}"),
        ({"data": []}, ".data: expected map, got &{[]}"),
        ({"immutable": "yes"}, ".immutable: expected boolean, got &{yes}"),
        ({"immutable": {"b": [1, None]}}, ".immutable: expected boolean, got &{map[b:[1 <nil>]]}"),
        (
            {"metadata": {"ownerReferences": [None]}},
            ".metadata.ownerReferences: element 0: associative list with keys may not have a null element",
        ),
        (
            {"metadata": {"ownerReferences": ["x"]}},
            ".metadata.ownerReferences: element 0: associative list with keys may not have non-map elements",
        ),
        (
            {"metadata": {"finalizers": ["a/b", {}, None]}},
            ".metadata.finalizers: element 1: associative list without keys has an element that's a map type",
        ),
        (
            {"metadata": {"finalizers": [None]}},
            ".metadata.finalizers: element 0: associative list without keys has an element that's an explicit null",
        ),
    ],
)
def test_configurations_that_do_not_fit_are_refused(extra: dict[str, Any], why: str) -> None:
    wanted = {**config({}), **extra}
    name = wanted["metadata"].get("name", "")
    with pytest.raises(ApiError) as caught:
        apply_patch(None, wanted, MAP, "m", False, NOW)
    assert caught.value.code == 500
    want = f"failed to create typed patch object (/{name}; /v1, Kind=ConfigMap): {why}"
    assert caught.value.message == want


def test_an_element_is_refused_that_leaves_out_all_keys_and_they_have_no_default() -> None:
    wanted = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}, "secrets": [{}]}
    with pytest.raises(ApiError) as caught:
        apply_patch(None, wanted, type_named("ServiceAccount"), "m", False, NOW)
    assert caught.value.message.endswith(
        ".secrets: element 0: associative list with keys has an element that omits all key fields "
        '["name"] (and doesn\'t have default values for any key fields)'
    )


def test_a_key_that_is_always_written_is_empty_where_an_element_leaves_it_out() -> None:
    wanted = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"image": "i"}]}}
    made = apply_patch(None, wanted, POD_TYPE, "m", False, NOW)
    assert list(owners(made)["m", "Apply"]["f:spec"]["f:containers"]) == ['k:{"name":""}']


def test_null_for_a_merged_part_leaves_it_as_it_is() -> None:
    live = applied(None, "one", {"k": "1"})
    wanted = {**config({}), "data": None}
    assert apply_patch(live, wanted, MAP, "two", False, LATER)["data"] == {"k": "1"}


def test_other_kinds_and_sent_owners_are_refused() -> None:
    with pytest.raises(ApiError, match="invalid object type: /v1, Kind=Secret"):
        read_applied({"apiVersion": "v1", "kind": "Secret"}, "v1", "ConfigMap")
    with pytest.raises(ApiError, match="invalid object type: /, Kind="):
        read_applied({}, "v1", "ConfigMap")
    with pytest.raises(ApiError, match="metadata.managedFields must be nil"):
        read_applied(config({}, managedFields=[{"manager": "x"}]), "v1", "ConfigMap")


def test_the_live_object_is_not_changed() -> None:
    live = applied(None, "one", {"k": "1"})
    before = deepcopy(live)
    applied(live, "two", {"k": "2"}, force=True)
    applied(live, "one", {})
    assert live == before


@pytest.mark.parametrize(
    ("said", "agent", "name"),
    [
        ("me", "kubectl/v1", "me"),
        (None, "kubectl/v1.36 (linux)", "kubectl"),
        ("", "", ""),
        (None, "x" * 200, "x" * 128),
    ],
)
def test_the_manager_is_named_or_taken_from_the_user_agent(said: str | None, agent: str, name: str) -> None:
    assert manager_name(said, agent) == name


@pytest.mark.parametrize("nonsense", [[], {}, None])
def test_an_owner_a_webhook_gave_no_name_is_unknown(nonsense: Any) -> None:
    live = a_pod()
    track_update(None, live, POD_TYPE, "maker", "Update", NOW)
    new = deepcopy(live)
    new["metadata"]["managedFields"][0]["manager"] = nonsense
    new["spec"]["containers"][0]["image"] = "other"
    track_update(live, new, POD_TYPE, "maker", "Update", LATER)
    assert {manager for manager, _ in owners(new)} == {"unknown", "maker"}


def text_of(fields: dict[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"))


def test_owned_fields_are_written_in_the_order_of_kubernetes() -> None:
    made = a_pod()
    ports = [{"containerPort": port, "protocol": "TCP"} for port in (8080, 443, 80)]
    made["spec"]["containers"][0] |= {"ports": ports, "command": ["sh"], "args": ["-c"]}
    track_update(None, made, POD_TYPE, "one", "Update", NOW)
    [entry] = made["metadata"]["managedFields"]
    [below] = entry["fieldsV1"]["f:spec"]["f:containers"].values()
    assert list(entry["fieldsV1"]) == sorted(entry["fieldsV1"])
    assert list(below) == sorted(below) and next(iter(below)) == "."
    numbers = [json.loads(element[2:])["containerPort"] for element in below["f:ports"] if element != "."]
    assert numbers == [80, 443, 8080]


def test_fields_that_a_manager_adds_later_come_in_order_as_well() -> None:
    made = a_pod()
    track_update(None, made, POD_TYPE, "one", "Update", NOW)
    later = deepcopy(made)
    later["metadata"]["annotations"] = {"z": "1", "a": "1"}
    track_update(made, later, POD_TYPE, "one", "Update", LATER)
    [entry] = later["metadata"]["managedFields"]
    assert (
        text_of(entry["fieldsV1"]["f:metadata"])
        == '{"f:annotations":{".":{},"f:a":{},"f:z":{}},"f:labels":{".":{},"f:l":{}}}'
    )


def test_fields_that_a_client_sends_out_of_order_are_stored_in_order() -> None:
    made = a_pod()
    track_update(None, made, POD_TYPE, "one", "Update", NOW)
    sent = deepcopy(made)
    [entry] = sent["metadata"]["managedFields"]
    entry["fieldsV1"] = dict(reversed(entry["fieldsV1"].items()))
    entry["manager"] = "other"
    track_update(made, sent, POD_TYPE, "two", "Update", LATER)
    [stored] = sent["metadata"]["managedFields"]
    assert stored["manager"] == "other"
    assert list(stored["fieldsV1"]) == ["f:metadata", "f:spec"]


@pytest.mark.parametrize(
    ("elements", "ordered"),
    [
        (["i:10", "v:1", 'k:{"a":1}', "f:z", "."], [".", "f:z", 'k:{"a":1}', "v:1", "i:10"]),
        (['v:"a"', "v:true", "v:10", "v:9", "v:null"], ["v:9", "v:10", 'v:"a"', "v:true", "v:null"]),
        (["i:10", "i:9"], ["i:9", "i:10"]),
        (['k:{"a":"x","b":1}', 'k:{"a":"x"}', 'k:{"a":2}'], ['k:{"a":2}', 'k:{"a":"x"}', 'k:{"a":"x","b":1}']),
    ],
)
def test_elements_of_every_kind_have_one_order(elements: list[str], ordered: list[str]) -> None:
    assert list(fieldset.in_order({element: {} for element in elements})) == ordered
