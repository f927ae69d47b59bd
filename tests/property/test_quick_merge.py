"""Strategic merge patches the quick way are what they are the long way: merged first, then typed."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.api.encoded import encoded
from podfit.api.patches import STRATEGIC, patch_object, strategic, take_patch
from podfit.api.patches.quick import quick_merge
from podfit.api.schema import type_named
from podfit.api.schema.decoding.decode import convert
from podfit.api.schema.decoding.fast import Surprise
from podfit.api.status import ApiError

POD = type_named("Pod")
NAMES = ["a", "b", "c", "d"]
Json = st.SearchStrategy[Any]

names = st.sampled_from(NAMES)
words = st.sampled_from(["", "x", "y", "1"])
times = st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00"])
amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "100m", "0.5", "1Gi", 2]))


def objects(null: bool, **fields: Json) -> Json:
    """Objects with some of these fields, in any order; a patch may also say null."""
    some = {name: st.none() | value if null else value for name, value in fields.items()}
    made = st.fixed_dictionaries({}, optional=some)
    return made.flatmap(lambda found: st.permutations(list(found)).map(lambda keys: {key: found[key] for key in keys}))


def keyed(key: str, item: Json) -> Json:
    """Elements whose names come once, mostly."""
    pairs = st.tuples(names, item).map(lambda pair: {key: pair[0], **pair[1]})
    return st.lists(pairs, max_size=4, unique_by=lambda found: str(found[key])) | st.lists(pairs, max_size=2)


def pods(null: bool) -> Json:
    """Pods that fit their type; as a patch, with nulls and with what is no number, too."""
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
    """A patch that says in which order lists come, and now and then something rarer."""
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
    """Tells 1, 1.0 and true apart, which are equal to Python."""
    return json.dumps(value, sort_keys=True)


@given(pods(False), pods(True), st.data())
def test_the_quick_way_and_the_long_way_agree(pod: Any, patch: Any, said: st.DataObject) -> None:
    live, patch = convert(pod, POD).obj, directed(patch, said)
    before = deepcopy((live, patch))
    try:
        quick = quick_merge(live, patch, POD)
    except (Surprise, ApiError):
        return
    finally:
        assert (live, patch) == before
    long = convert(strategic.merged(live, patch, POD), POD, base=live)
    assert in_text(quick) == in_text(long.obj)
    assert long.warnings == []


def containers_of(value: Any) -> set[int]:
    """The identities of all that can change in it."""
    if not isinstance(value, (dict, list)):
        return set()
    inner = value.values() if isinstance(value, dict) else value
    return {id(value)}.union(*map(containers_of, inner))


@given(pods(False), pods(True), st.data())
def test_a_patch_that_never_was_bytes_does_what_its_json_does(pod: Any, patch: Any, said: st.DataObject) -> None:
    live, patch = convert(pod, POD).obj, directed(patch, said)
    before = deepcopy((live, patch))
    taken = take_patch(live, patch, POD)
    assert (live, patch) == before
    if taken is None:
        return
    told = patch_object(live, encoded(patch), STRATEGIC, POD)
    assert in_text(taken) == in_text(told.obj)
    assert told.warnings == []
    assert containers_of(taken).isdisjoint(containers_of(patch))


@pytest.mark.parametrize("patch", [[], {"spec": {1: "x"}}, {"status": {"phase": object()}}, {"other": 1}])
def test_a_patch_that_is_not_plain_has_to_be_encoded(patch: Any) -> None:
    assert take_patch(LIVE, patch, POD) is None


@given(pods(False))
def test_what_a_patch_sets_to_what_it_is_stays_the_same_object(pod: Any) -> None:
    live = convert(pod, POD).obj
    containers = live["spec"]["containers"] or []
    try:
        made = quick_merge(live, {"spec": {"containers": containers}, "status": {"phase": "z"}}, POD)
    except Surprise:
        assert len({each["name"] for each in containers}) < len(containers) or any("env" in each for each in containers)
        return
    assert made["status"] is not live["status"]
    assert made["spec"] is live["spec"] or not containers


def test_an_ordered_list_that_is_new_is_no_surprise() -> None:
    patch = {"status": {"$setElementOrder/conditions": ORDER[::-1], "conditions": LIVE["status"]["conditions"][:1]}}
    live = {**LIVE, "status": {}}
    made = quick_merge(live, patch, POD)
    assert in_text(made) == in_text(convert(strategic.merged(live, patch, POD), POD, base=live).obj)


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
def test_what_clients_mostly_send_is_no_surprise(patch: Any) -> None:
    made = quick_merge(LIVE, patch, POD)
    assert in_text(made) == in_text(convert(strategic.merged(LIVE, patch, POD), POD, base=LIVE).obj)
    assert made["spec"]["containers"][-1] is LIVE["spec"]["containers"][-1] or "spec" in patch
