"""An object passed within the process is read as its JSON would be, and no part of it is kept."""

from __future__ import annotations

import datetime
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.encoded import encoded
from podfit.api.registry.kinds import EVENT, POD, Kind, kind_named
from podfit.api.schema.decoding.decode import decode, take
from podfit.api.status import ApiError

Json = st.SearchStrategy[Any]
words = st.sampled_from(["", "a", "b", "2026-01-01T00:00:00Z", "100m", "é"])
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0]) | words
free = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
odd = st.sampled_from([("a", "b"), {1: "x"}, b"raw", datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), {"a": (1,)}])
"""Values that an encoder converts to JSON, and values that only resemble them."""


def objects(**fields: Json) -> Json:
    rare = st.one_of(
        st.just({}), st.just({}), st.dictionaries(st.sampled_from([*fields, "other"]), free | odd, max_size=1)
    )
    some = st.fixed_dictionaries({}, optional={name: st.none() | value for name, value in fields.items()})
    return st.tuples(some, rare).map(lambda pair: {**pair[0], **pair[1]})


maps = st.dictionaries(words, words, max_size=3)
times = st.just("2026-01-01T00:00:00Z")
numbers = st.integers(0, 2)
entry = objects(manager=words, operation=words, time=times, fieldsType=words, fieldsV1=st.dictionaries(words, free))
metadata = objects(
    name=words, namespace=words, labels=maps, annotations=maps, generation=numbers, managedFields=st.lists(entry)
)
reference = objects(kind=words, name=words, namespace=words, uid=words, fieldPath=words)
events = objects(
    kind=st.just("Event"),
    apiVersion=st.just("v1"),
    metadata=metadata,
    involvedObject=reference,
    source=objects(component=words, host=words),
    message=words,
    count=numbers,
    firstTimestamp=times,
    eventTime=times,
    series=objects(count=numbers, lastObservedTime=times),
    reportingComponent=words,
)
amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "0.1", 1, 0.5]))
container = objects(
    name=words, command=st.lists(words), resources=objects(requests=amounts, limits=amounts), tty=st.booleans()
)
pods = objects(kind=st.sampled_from(["Pod", ""]), metadata=metadata, spec=objects(containers=st.lists(container)))
config_maps = objects(metadata=metadata, data=maps, immutable=st.booleans())
revisions = objects(apiVersion=st.sampled_from(["apps/v1", "v1"]), metadata=metadata, data=free, revision=numbers)
given_objects = st.one_of(
    st.tuples(st.just(EVENT), events),
    st.tuples(st.just(POD), pods),
    st.tuples(st.just(kind_named("ConfigMap")), config_maps),
    st.tuples(st.just(kind_named("ControllerRevision")), revisions),
)


def containers_of(value: Any) -> set[int]:
    """The identities of all mutable values in it."""
    if not isinstance(value, (dict, list)):
        return set()
    inner = value.values() if isinstance(value, dict) else value
    return {id(value)}.union(*map(containers_of, inner))


@given(given_objects)
def test_what_is_taken_is_what_would_be_decoded_and_shares_nothing(case: tuple[Kind, Any]) -> None:
    kind, obj = case
    before = deepcopy(obj)
    taken = take(obj, kind)
    assert obj == before
    if taken is None:
        return
    reported = decode(encoded(obj), kind, field_validation="Strict")
    assert encoded(taken) == encoded(reported.obj)
    assert reported.warnings == []
    assert containers_of(taken).isdisjoint(containers_of(obj))


@given(given_objects)
def test_whatever_there_is_something_to_say_about_is_not_taken(case: tuple[Kind, Any]) -> None:
    kind, obj = case
    try:
        fits = not decode(encoded(obj), kind, field_validation="Warn").warnings
    except (ApiError, TypeError):
        fits = False
    if not fits:
        assert take(obj, kind) is None


def test_a_plain_event_is_taken() -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"}, "count": 1}
    taken = take(event, EVENT)
    assert taken is not None
    assert taken["involvedObject"] == {"kind": "Pod"}
