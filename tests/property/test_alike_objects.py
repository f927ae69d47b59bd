"""The creator of an object owns the same fields, whether or not a similar one was created before."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.patches.apply import ResetFields, track_update
from podfit.api.patches.apply.outlines import outline
from podfit.api.schema import type_named
from podfit.api.text.gojson import parse_exact

STATUS = ResetFields((("status",),))
NOW = "2026-01-01T00:00:00Z"
words = st.sampled_from(["", "a", "b"])
maps = st.dictionaries(words, words, max_size=3)
numbers = st.integers(0, 2)


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({}, optional=fields)


owners = st.lists(st.fixed_dictionaries({"uid": words, "name": words}), max_size=2)
metadata = objects(
    name=words, namespace=words, labels=maps, annotations=maps, ownerReferences=owners, finalizers=st.lists(words)
)
reference = objects(kind=words, namespace=words, name=words, fieldPath=words)
events = objects(
    metadata=metadata,
    involvedObject=reference,
    source=objects(component=words, host=words),
    message=words,
    count=numbers,
    eventTime=st.none() | st.just(NOW),
    reportingInstance=words,
    series=objects(count=numbers) | st.none(),
)
nodes = objects(
    metadata=metadata,
    spec=objects(podCIDR=words, unschedulable=st.booleans(), taints=st.lists(objects(key=words), max_size=2)),
    status=objects(capacity=maps, nodeInfo=objects(machineID=words)),
)
config_maps = objects(metadata=metadata, data=maps, immutable=st.booleans() | st.none())
cases = st.one_of(
    st.tuples(st.just("Event"), st.lists(events, max_size=6)),
    st.tuples(st.just("Node"), st.lists(nodes, max_size=6)),
    st.tuples(st.just("ConfigMap"), st.lists(config_maps, max_size=6)),
)


def owned(name: str, obj: Any, reset: ResetFields | None) -> Any:
    made = deepcopy(obj)
    track_update(None, made, type_named(name), "me", "Update", NOW, "", reset)
    return made["metadata"].get("managedFields")


@given(cases, st.sampled_from([None, STATUS]))
def test_owners_do_not_depend_on_what_was_made_before(case: tuple[str, list[Any]], reset: ResetFields | None) -> None:
    name, made = case
    struct = type_named(name)
    after_others = [owned(name, obj, reset) for obj in made]
    for obj, reported in zip(made, after_others, strict=True):
        struct.cache.pop("alike", None)
        assert owned(name, obj, reset) == reported


def test_empty_and_unset_are_distinguished() -> None:
    assert owned("Event", {"reportingInstance": "n"}, None) != owned("Event", {"reportingInstance": ""}, None)


def test_only_plain_objects_without_lists_have_an_outline() -> None:
    exact = parse_exact(b'{"spec":{"a":1,"a":2}}')
    assert outline({"spec": {"a": 1}}) is not None
    assert outline(exact) is None
    assert outline({"spec": []}) is None
