"""The server's cache of decoded objects, and the lifetime of objects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podfit.api.objects import Object, freeze
from podfit.api.registry.kinds import EVENT, POD, Kind, Registry
from podfit.api.status import ApiError
from podfit.apiserver.storage.hub import Hub
from podfit.apiserver.storage.object_cache import AVERAGE, ObjectCache
from podfit.apiserver.storage.objects import EVENT_TTL_S, Objects
from podfit.kit.clock import FakeClock
from podfit.store.backend import Record
from podfit.store.memory import MemoryStore


def record(name: str, revision: int) -> Record:
    return Record(POD.key("ns", name), b"", 1, revision)


def test_the_newest_state_and_the_one_before_it_are_remembered() -> None:
    memory = ObjectCache(10)
    states = [freeze({"at": at}) for at in range(3)]
    for at, state in enumerate(states):
        memory.put(record("a", at + 1), state)
    assert memory.get(record("a", 1)) is None
    assert memory.get(record("a", 2)) is states[1]
    assert memory.get(record("a", 3)) is states[2]


def test_an_older_state_does_not_replace_a_newer_one() -> None:
    memory = ObjectCache(10)
    newer = freeze({})
    memory.put(record("a", 2), newer)
    memory.put(record("a", 1), {"old": True})
    assert memory.get(record("a", 2)) is newer
    assert memory.get(record("a", 1)) is None


def test_the_least_recently_used_entry_is_evicted() -> None:
    memory = ObjectCache(2)
    memory.put(record("a", 1), {"name": "a"})
    memory.put(record("b", 2), {"name": "b"})
    memory.get(record("a", 1))
    memory.put(record("c", 3), {"name": "c"})
    assert [memory.get(record(name, at)) for at, name in enumerate("abc", 1)] == [{"name": "a"}, None, {"name": "c"}]


def owned(name: str) -> Object:
    entry = {"manager": "m", "operation": "Update", "fieldsV1": {"f:spec": {"f:nodeName": {}}}}
    return {"metadata": {"name": name, "managedFields": [entry]}, "spec": {"nodeName": "n"}}


def test_what_a_part_of_the_process_keeps_is_remembered_beyond_the_limit() -> None:
    memory = ObjectCache(1)
    whole = memory.put(record("a", 1), owned("a"))
    stripped = memory.strip(record("a", 1), whole)
    memory.put(record("b", 2), owned("b"))
    assert memory.get(record("a", 1)) is stripped.whole and stripped.whole == whole
    assert memory.get(record("a", 3)) is None
    memory.put(record("b", 4), owned("b"))
    assert stripped == {"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"nodeName": "n"}}
    del stripped
    assert memory.get(record("a", 1)) is None


def test_the_state_before_one_that_is_kept_elsewhere_is_remembered_too() -> None:
    memory = ObjectCache(1)
    states = [owned("a"), owned("a")]
    stripped = memory.strip(record("a", 1), states[0])
    assert memory.get(record("a", 1)) is stripped.whole
    memory.put(record("a", 2), states[1])
    assert [memory.get(record("a", at)) for at in (1, 2)] == [states[0], states[1]]
    assert stripped.whole == states[0]


def test_stored_objects_share_equal_sets_of_owned_fields() -> None:
    memory = ObjectCache(10)
    one, other = owned("a"), owned("b")
    kept = [memory.strip(record("a", 1), one), memory.strip(record("b", 2), other)]
    fields = [stripped.whole["metadata"]["managedFields"][0]["fieldsV1"] for stripped in kept]
    assert fields[0] is fields[1]
    assert (one, other) == (owned("a"), owned("b"))


def named(kind: Kind, name: str) -> Object:
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": {"name": name, "namespace": "ns"}}


async def test_many_events_do_not_drive_out_what_is_remembered_of_others() -> None:
    store = MemoryStore()
    objects = Objects(store, Registry(), Hub(store), FakeClock())
    await objects.put(POD, POD.key("ns", "a"), named(POD, "a"), 0)
    pod = objects.get(POD, "ns", "a")
    for number in range(2000):
        await objects.put(EVENT, EVENT.key("ns", f"e{number}"), named(EVENT, f"e{number}"), 0)
    assert objects.get(POD, "ns", "a") is pod
    assert (objects.get(EVENT, "ns", "e0") or {})["metadata"]["name"] == "e0"


async def test_only_events_of_the_cluster_vanish_by_themselves() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock)
    registry = Registry()
    objects = Objects(store, registry, Hub(store), clock)
    custom = replace(EVENT, group="shows.example.com", custom=True)
    registry.add(custom)
    for kind in (EVENT, custom):
        await objects.put(kind, kind.key("ns", "a"), named(kind, "a"), 0)
    await clock.advance(EVENT_TTL_S + 61)
    assert store.get(EVENT.key("ns", "a")) is None
    assert store.get(custom.key("ns", "a")) is not None
    await store.close()


async def test_an_object_of_a_kind_that_is_not_defined_any_more_is_not_stored() -> None:
    store = MemoryStore()
    objects = Objects(store, Registry(), Hub(store), FakeClock())
    custom = replace(EVENT, group="gone.example.com", custom=True)
    with pytest.raises(ApiError) as caught:
        await objects.put(custom, custom.key("ns", "a"), named(custom, "a"), 0)
    assert (caught.value.code, store.get(custom.key("ns", "a"))) == (404, None)


def test_large_objects_do_not_fill_the_memory_of_objects() -> None:
    memory = ObjectCache(10)
    for at in range(1, 100):
        value = b"x" * AVERAGE * 4
        memory.put(Record(f"k{at % 50}", value, at, at), {"metadata": {}})
    known = [memory.get(Record(f"k{at % 50}", b"", at, at)) for at in range(1, 100)]
    assert sum(found is not None for found in known) <= 2
