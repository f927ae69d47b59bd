"""Laws that patches, apply and decoding obey for any object."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.patches import JSON_PATCH, MERGE_PATCH, STRATEGIC, json_patch, merge_patch, patch_object, strategic
from podfit.api.patches.apply import apply_patch, fieldset, managers, parts, read_applied, track_update, typed
from podfit.api.registry.kinds import BUILT_IN, Kind, kind_named
from podfit.api.schema import type_named, type_of
from podfit.api.schema.custom.structural import CustomSchema
from podfit.api.schema.decoding.decode import convert, decode
from podfit.api.schema.decoding.notes import Notes
from podfit.api.schema.decoding.reader import HasProblems, reader
from podfit.api.selectors import LabelSelector, SelectorError
from podfit.api.status import ApiError
from podfit.api.text.gojson import parse, syntax_error

POD = type_named("Pod")
MAP = type_named("ConfigMap")
NOW = "2026-01-01T00:00:00Z"

names = st.sampled_from(["a", "b", "c", "d"])
words = st.sampled_from(["", "x", "y", "1"])
quantities = st.sampled_from(["1", "100m", "0.5", "1Gi", "1024Mi", 2])
lists = st.dictionaries(st.sampled_from(["cpu", "memory"]), quantities)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | words,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(names, below, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(names, json_values, max_size=4)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def keyed(item: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    pairs = st.dictionaries(names, item, max_size=3)
    return pairs.map(lambda found: [{"name": name, **rest} for name, rest in found.items()])


containers = keyed(
    optional(
        image=words,
        command=st.lists(words, max_size=2),
        env=keyed(optional(value=words)),
        resources=optional(requests=lists, limits=lists),
        tty=st.booleans(),
    )
)
pods = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.just("Pod")},
    optional={
        "metadata": optional(
            labels=st.dictionaries(names, words, max_size=3),
            finalizers=st.lists(words, unique=True, max_size=3),
        ),
        "spec": optional(
            containers=containers,
            initContainers=containers,
            nodeSelector=st.dictionaries(names, words, max_size=2),
            tolerations=st.lists(optional(key=words), max_size=2),
            priority=st.integers(-(2**31), 2**31 - 1),
            hostNetwork=st.booleans(),
        ),
    },
)


def typed_pod(pod: dict[str, Any]) -> dict[str, Any]:
    return convert(pod, POD).obj


@given(json_objects, json_objects)
def test_replacing_the_root_and_testing_it_round_trips(document: Any, other: Any) -> None:
    operations = [{"op": "replace", "path": "", "value": other}, {"op": "test", "path": "", "value": other}]
    assert json_patch.apply_operations(document, operations) == other


@given(json_objects, names, json_values)
def test_adding_then_removing_a_member_restores_the_document(document: Any, name: str, value: Any) -> None:
    document = {key: item for key, item in document.items() if key != name}
    before = deepcopy(document)
    operations = [{"op": "add", "path": f"/{name}", "value": value}, {"op": "remove", "path": f"/{name}"}]
    assert json_patch.apply_operations(document, operations) == before
    assert document == before


@given(json_objects, json_objects)
def test_a_merge_patch_applied_twice_is_applied_once(document: Any, patch: Any) -> None:
    once = merge_patch.merged(document, patch)
    assert merge_patch.merged(once, patch) == once


@given(json_objects)
def test_the_empty_merge_patch_changes_nothing(document: Any) -> None:
    assert merge_patch.merged(document, {}) == document


@given(pods, pods)
def test_a_strategic_patch_applied_twice_is_applied_once(live: Any, patch: Any) -> None:
    once = strategic.merged(live, patch, POD)
    assert strategic.merged(once, patch, POD) == once


@given(pods)
def test_a_strategic_patch_of_oneself_changes_nothing(live: Any) -> None:
    assert strategic.merged(live, live, POD) == live


@given(pods, pods)
def test_a_strategic_patch_leaves_its_input_alone(live: Any, patch: Any) -> None:
    before = deepcopy((live, patch))
    strategic.merged(live, patch, POD)
    assert (live, patch) == before


@given(pods)
def test_decoding_is_stable(pod: Any) -> None:
    once = typed_pod(pod)
    assert typed_pod(once) == once
    assert decode(json.dumps(once).encode(), kind_named("Pod"), field_validation="Strict").obj == once


@given(pods | json_objects)
def test_only_what_is_odd_is_read_with_notes(value: Any) -> None:
    try:
        read = reader(POD)(value, None, None)
    except HasProblems:
        return
    notes = Notes()
    assert reader(POD)(value, None, notes) == read
    assert notes.strict == []
    assert notes.wrong is None


@given(st.binary(max_size=30) | json_values.map(lambda value: json.dumps(value).encode()))
def test_the_scanner_accepts_exactly_what_the_parser_does(raw: bytes) -> None:
    try:
        json.loads(raw.decode("utf-8"), parse_constant=lambda word: (_ for _ in ()).throw(ValueError(word)))
        valid = True
    except UnicodeDecodeError:
        return
    except ValueError:
        valid = False
    if raw.startswith(b"\xef\xbb\xbf"):
        return
    assert (syntax_error(raw) is None) == valid
    if valid:
        parse(raw)


@given(pods, pods)
def test_applying_twice_changes_nothing_more(live: Any, wanted: Any) -> None:
    base = typed_pod(live)
    track_update(None, base, POD, "maker", "Update", NOW)
    once = apply_patch(base, wanted, POD, "applier", True, NOW)
    assert apply_patch(once, wanted, POD, "applier", True, NOW) is once


@given(pods, pods)
def test_forced_apply_leaves_no_conflict_and_disjoint_owners(live: Any, wanted: Any) -> None:
    base = typed_pod(live)
    track_update(None, base, POD, "maker", "Update", NOW)
    once = apply_patch(base, wanted, POD, "applier", True, NOW)
    changed = typed.compare(base, once, POD)[0]
    for entry in once["metadata"].get("managedFields", []):
        if entry["manager"] == "maker":
            taken = {key: node for key, node in changed.items() if key != "f:metadata"}
            assert fieldset.intersection(entry["fieldsV1"], taken) == {}
    assert apply_patch(once, wanted, POD, "applier", False, NOW) is once


@given(pods, pods)
def test_apply_without_force_changes_nothing_it_does_not_own(live: Any, wanted: Any) -> None:
    base = typed_pod(live)
    track_update(None, base, POD, "maker", "Update", NOW)
    try:
        made = apply_patch(base, wanted, POD, "applier", False, NOW)
    except ApiError as error:
        assert error.code == 409
        assert error.details
        return
    owned = {entry["manager"]: entry["fieldsV1"] for entry in base["metadata"].get("managedFields", [])}
    changed = typed.compare(base, made, POD)[0]
    changed = {key: node for key, node in changed.items() if key != "f:metadata"}
    assert fieldset.intersection(owned.get("maker", {}), changed) == {}


def without_empty_lists(value: Any) -> Any:
    """An empty list claims no ownership, so no later apply removes it."""
    if isinstance(value, dict):
        return {key: without_empty_lists(item) for key, item in value.items() if item != []}
    return [without_empty_lists(item) for item in value] if isinstance(value, list) else value


@given(pods)
def test_what_was_applied_goes_when_it_is_no_longer(wanted: Any) -> None:
    kept = {"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {"kept": "x"}}}
    wanted = without_empty_lists({**wanted, "metadata": {**wanted.get("metadata", {}), **kept["metadata"]}})
    first = apply_patch(None, wanted, POD, "applier", False, NOW)
    left = apply_patch(first, kept, POD, "applier", False, NOW)
    del left["metadata"]["managedFields"]
    assert typed_pod(left) == typed_pod(kept)


sets = st.recursive(
    st.just({}),
    lambda below: st.dictionaries(names.map("f:{}".format) | st.just("."), below, max_size=3).map(
        lambda node: {key: {} if key == "." else item for key, item in node.items()}
    ),
    max_leaves=6,
).map(lambda node: {key: item for key, item in node.items() if key != "."})


def members(fields: fieldset.FieldSet) -> set[tuple[str, ...]]:
    return set(fieldset.members(fields))


@given(sets, sets)
def test_field_sets_are_sets(left: Any, right: Any) -> None:
    assert members(fieldset.union(left, right)) == members(left) | members(right)
    assert members(fieldset.intersection(left, right)) == members(left) & members(right)
    assert members(fieldset.difference(left, right)) == members(left) - members(right)
    assert fieldset.overlaps(left, right) == bool(members(left) & members(right))
    assert fieldset.covers(left, right) == (members(left) >= members(right))


@given(st.lists(json_objects, max_size=6), st.integers(1, 6))
def test_shared_sets_are_equal_down_to_the_order(given_sets: list[Any], limit: int) -> None:
    table = parts.SharedFieldSets(limit)
    assert json.dumps([table.shared(fields) for fields in given_sets]) == json.dumps(given_sets)


@given(st.lists(sets, max_size=6))
def test_equal_parts_of_shared_sets_are_one(given_sets: list[Any]) -> None:
    table = parts.SharedFieldSets()
    for fields in given_sets:
        assert table.shared(deepcopy(fields)) is table.shared(fields)
        assert all(table.shared(node) is node for node in table.shared(fields).values())


updates = st.lists(st.tuples(st.sampled_from(["maker", "agent", "user"]), pods, words), max_size=4)


@given(pods, updates)
def test_owners_that_stay_the_same_are_found_the_quick_way_and_the_thorough_way(first: Any, changes: Any) -> None:
    quick = [tracked(None, first, "maker", NOW)]
    thorough = list(quick)
    for manager, wanted, image in changes:
        spec = {"containers": [{"name": "a", "image": image}]}
        now = f"2026-01-01T00:00:{len(quick):02}Z"
        value = strategic.merged(quick[-1], {"spec": spec}, POD) if image else wanted
        quick.append(tracked(quick[-1], value, manager, now))
        with mock.patch.object(managers, "renewed", return_value=None):
            thorough.append(tracked(thorough[-1], value, manager, now))
    assert quick == thorough


def tracked(live: Any, value: Any, manager: str, now: str) -> dict[str, Any]:
    obj = typed_pod({key: item for key, item in value.items() if key != "metadata"})
    obj["metadata"] = {key: item for key, item in value.get("metadata", {}).items() if key != "managedFields"}
    before = deepcopy(live)
    track_update(live, obj, POD, manager, "Update", now, "status")
    assert live == before
    return obj


@given(json_objects)
def test_pruning_and_defaulting_are_idempotent(value: Any) -> None:
    item = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
    custom = CustomSchema({"type": "object", "properties": {"a": item, "b": {"type": "array", "items": item}}})
    once, _ = custom.prune(value)
    assert custom.prune(once) == (once, [])
    custom.default(once)
    again = deepcopy(once)
    custom.default(again)
    assert again == once


@given(st.text(alphabet="ab=!,()<> in", max_size=12))
def test_label_selectors_parse_or_say_why_and_read_back(text: str) -> None:
    try:
        selector = LabelSelector.parse(text)
    except SelectorError as error:
        assert str(error)
        return
    assert LabelSelector.parse(str(selector)) == selector


KEYS = [
    "apiVersion",
    "kind",
    "metadata",
    "spec",
    "data",
    "name",
    "labels",
    "containers",
    "resources",
    "requests",
    "cpu",
    "managedFields",
    "finalizers",
    "env",
    "ownerReferences",
    "volumes",
    "fieldsV1",
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "$deleteFromPrimitiveList/finalizers",
]
shapes = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda below: (
        st.lists(below, max_size=2)
        | st.dictionaries(
            st.sampled_from(KEYS),
            below,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(shapes, st.sampled_from(["Strict", "Warn", "Ignore"]), st.sampled_from(BUILT_IN))
def test_any_json_decodes_or_is_refused(value: Any, mode: str, kind: Kind) -> None:
    try:
        decode(json.dumps(value).encode(), kind, field_validation=mode)
    except ApiError as error:
        assert error.code == 400


@given(pods, shapes, st.sampled_from([JSON_PATCH, MERGE_PATCH, STRATEGIC]))
def test_any_json_patches_or_is_refused(live: Any, patch: Any, how: str) -> None:
    try:
        patch_object(typed_pod(live), json.dumps(patch).encode(), how, POD)
    except ApiError as error:
        assert error.code in (400, 413, 422, 500)


@given(pods, shapes)
def test_any_json_applies_or_is_refused(live: Any, wanted: Any) -> None:
    base = typed_pod(live)
    track_update(None, base, POD, "maker", "Update", NOW)
    try:
        said = {**wanted, "apiVersion": "v1", "kind": "Pod"} if isinstance(wanted, dict) else wanted
        apply_patch(base, read_applied(said, "v1", "Pod"), POD, "applier", True, NOW)
    except ApiError as error:
        assert error.code in (400, 409, 500)


def test_a_config_map_has_a_type() -> None:
    assert type_of(kind_named("ConfigMap")) is MAP


@given(pods)
def test_putting_owned_fields_in_order_changes_no_field_and_is_done_once(pod: dict[str, Any]) -> None:
    fields = typed.compare({}, pod, POD)[0]
    ordered = fieldset.in_order(fields)
    assert ordered == fields
    assert fieldset.in_order(ordered) is ordered
