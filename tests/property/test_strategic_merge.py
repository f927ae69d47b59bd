"""A strategic merge patch costs time for what it changes: everything else stays the same object, and no part of
the patch is kept.
"""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.api.encoded import encoded
from podfit.api.patches import STRATEGIC, patch_object, strategic
from podfit.api.schema import type_named
from podfit.api.schema.decoding.decode import DecodeError, convert
from podfit.api.status import ApiError

POD = type_named("Pod")
NAMES = ["a", "b", "c", "d"]
Json = st.SearchStrategy[Any]

names = st.sampled_from(NAMES)
words = st.sampled_from(["", "x", "y", "1"])
times = st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00"])
amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "100m", "0.5", "1Gi", 2]))


def objects(null: bool, **fields: Json) -> Json:
    """Objects with some of these fields, in any order; a patch may also contain null."""
    some = {name: st.none() | value if null else value for name, value in fields.items()}
    made = st.fixed_dictionaries({}, optional=some)
    return made.flatmap(lambda found: st.permutations(list(found)).map(lambda keys: {key: found[key] for key in keys}))


def keyed(key: str, item: Json) -> Json:
    """Elements whose names are mostly unique."""
    pairs = st.tuples(names, item).map(lambda pair: {key: pair[0], **pair[1]})
    return st.lists(pairs, max_size=4, unique_by=lambda found: str(found[key])) | st.lists(pairs, max_size=2)


def pods(null: bool) -> Json:
    """Pods that match their type; as a patch, also with nulls and with invalid numbers."""
    numbers = st.sampled_from([0, 1, 2, 1.0, True] if null else [0, 1, 2])
    env = keyed("name", objects(null, value=words))
    resources = objects(null, requests=amounts, limits=amounts)
    containers = keyed("name", objects(null, image=words, env=env, resources=resources, tty=st.booleans()))
    running = objects(null, running=objects(null, startedAt=times))
    statuses = keyed("name", objects(null, ready=st.booleans(), restartCount=numbers, state=running))
    condition = objects(null, status=words, lastProbeTime=times, lastTransitionTime=times, observedGeneration=numbers)
    labels = st.dictionaries(names, st.none() | words if null else words, max_size=3)
    return objects(
        null,
        metadata=objects(null, labels=labels, finalizers=st.lists(words, unique=True, max_size=3), uid=words),
        spec=objects(
            null,
            containers=containers,
            nodeSelector=labels,
            tolerations=st.lists(objects(null, key=words), max_size=2),
            priority=numbers,
            hostNetwork=st.booleans(),
            terminationGracePeriodSeconds=numbers,
        ),
        status=objects(null, phase=words, conditions=keyed("type", condition), containerStatuses=statuses),
    )


def directed(patch: Any, said: st.DataObject) -> Any:
    """A patch that states the order of lists, and occasionally contains something rarer."""
    for part, name, key in (("spec", "containers", "name"), ("status", "conditions", "type")):
        place = patch.get(part)
        if isinstance(place, dict) and said.draw(st.booleans()):
            order = said.draw(st.permutations(NAMES)) if said.draw(st.booleans()) else _named(place.get(name), key)
            place[f"$setElementOrder/{name}"] = [{key: each} for each in order]
    rare = said.draw(st.sampled_from([{}] * 6 + [{"$patch": "replace"}, {"$retainKeys": ["spec"]}, {"other": "x"}]))
    return {**patch, **rare}


def _named(items: Any, key: str) -> list[Any]:
    return [item[key] for item in items or ()]


def in_text(value: Any) -> str:
    """Distinguishes 1, 1.0 and true, which are equal in Python."""
    return json.dumps(value, sort_keys=True)


@given(pods(False), pods(True), st.data())
def test_neither_the_object_nor_the_patch_is_changed(pod: Any, patch: Any, said: st.DataObject) -> None:
    live, patch = convert(pod, POD).obj, directed(patch, said)
    before = deepcopy((live, patch))
    outcome(live, encoded(patch))
    outcome(live, patch)
    assert (live, patch) == before


@given(pods(False), pods(True), st.data())
def test_what_stayed_the_same_need_not_be_read_again(pod: Any, patch: Any, said: st.DataObject) -> None:
    live, patch = convert(pod, POD).obj, directed(patch, said)
    try:
        value = strategic.merged(live, patch, POD)
        whole = convert(deepcopy(value), POD)
    except (ApiError, DecodeError):
        return
    assert in_text(convert(value, POD, base=live).obj) == in_text(whole.obj)


def outcome(live: Any, patch: Any) -> tuple[Any, ...]:
    """The outcome of a patch: the object and the warnings, or the error."""
    try:
        made = patch_object(live, patch, STRATEGIC, POD)
    except ApiError as error:
        return error.code, error.message, error.details
    return in_text(made.obj), made.warnings


def containers_of(value: Any) -> set[int]:
    """The identities of all mutable values in it."""
    if not isinstance(value, (dict, list)):
        return set()
    inner = value.values() if isinstance(value, dict) else value
    return {id(value)}.union(*map(containers_of, inner))


@given(pods(False), pods(True), st.data())
def test_a_patch_that_never_was_bytes_does_what_its_json_does(pod: Any, patch: Any, said: st.DataObject) -> None:
    live, patch = convert(pod, POD).obj, directed(patch, said)
    assert outcome(live, patch) == outcome(live, encoded(patch))
    try:
        made = patch_object(live, patch, STRATEGIC, POD).obj
    except ApiError:
        return
    assert containers_of(made).isdisjoint(containers_of(patch))


@given(pods(False))
def test_a_field_that_a_patch_sets_to_its_value_stays_the_same_object(pod: Any) -> None:
    live = convert(pod, POD).obj
    containers = live["spec"]["containers"] or []
    made = patch_object(live, {"spec": {"containers": containers}, "status": {"phase": "z"}}, STRATEGIC, POD).obj
    assert made["status"] is not live["status"]
    names = {each["name"] for each in containers}
    merges = len(names) == len(containers) and not any("env" in each for each in containers)
    assert made["spec"] is live["spec"] or not containers or not merges


def test_an_ordered_list_that_is_new_comes_in_its_order() -> None:
    patch = {"status": {"$setElementOrder/conditions": ORDER[::-1], "conditions": LIVE["status"]["conditions"][::-1]}}
    made = patch_object({**LIVE, "status": {}}, patch, STRATEGIC, POD).obj
    assert [each["type"] for each in made["status"]["conditions"]] == ["Initialized", "Ready"]


READY = {"type": "Ready", "status": "True", "lastProbeTime": None, "observedGeneration": 1}
LIVE = convert(
    {
        "metadata": {"labels": {"a": "b"}, "finalizers": ["x"]},
        "spec": {"containers": [{"name": n, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}} for n in "ab"]},
        "status": {"phase": "Running", "conditions": [READY, {**READY, "type": "Initialized"}]},
    },
    POD,
).obj
ORDER = [{"type": "Ready"}, {"type": "Initialized"}]
PLAIN = [
    pytest.param({"spec": {"containers": [{"name": "b", "resources": {"limits": {"cpu": "2"}}}]}}, id="a size"),
    pytest.param({"metadata": {"labels": {"a": None, "c": "d"}}}, id="labels"),
    pytest.param({"metadata": {"finalizers": ["y"]}}, id="a finalizer"),
    pytest.param({"spec": {"containers": [{"name": "c", "image": "x"}, {"name": "a"}]}}, id="a container"),
    pytest.param({"status": {"phase": None, "podIPs": [{"ip": "10.0.0.1"}]}}, id="an address"),
    pytest.param(
        {
            "status": {
                "$setElementOrder/conditions": ORDER,
                "conditions": [{**READY, "observedGeneration": 2}, {**READY, "type": "Initialized"}],
            }
        },
        id="conditions",
    ),
    pytest.param(
        {"status": {"$setElementOrder/conditions": ORDER[::-1], "conditions": [{**READY, "status": "False"}]}},
        id="conditions in another order",
    ),
]


@pytest.mark.parametrize("patch", PLAIN)
def test_parts_that_a_patch_does_not_name_are_shared(patch: Any) -> None:
    made = patch_object(LIVE, patch, STRATEGIC, POD).obj
    assert in_text(made) != in_text(LIVE)
    assert all(made[name] is LIVE[name] for name in LIVE if name not in patch)
    if "conditions" not in str(patch):
        assert made["status"].get("conditions") is LIVE["status"]["conditions"]
    named = [each["name"] for each in patch.get("spec", {}).get("containers", ())]
    pairs = zip(made["spec"]["containers"], LIVE["spec"]["containers"], strict=False)
    assert all(mine is kept for mine, kept in pairs if mine["name"] == kept["name"] and mine["name"] not in named)
