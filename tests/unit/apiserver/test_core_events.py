"""Changes are delivered to their watchers, encoded once, and never wait for them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from podfit.api.registry.kinds import POD, Registry
from podfit.apiserver.representation import wire
from podfit.apiserver.representation.forms import MetadataOnly, Spliced
from podfit.apiserver.representation.selection import chosen
from podfit.apiserver.storage import events
from podfit.apiserver.storage.events import BUFFER, Subscriber, Watcher, WatchEvent
from podfit.apiserver.storage.hub import IN_A_ROW, TURNS_OF_AN_ANSWER, Hub
from podfit.apiserver.storage.objects import Objects
from podfit.kit.clock import RealClock
from podfit.store.backend import Change, Record
from podfit.store.memory import MemoryStore

FORM = Spliced(wire.Splicer(POD))


def pod(name: str, node: str = "", color: str = "") -> bytes:
    meta: dict[str, Any] = {"name": name, "namespace": "ns"}
    if color:
        meta["labels"] = {"color": color}
    return wire.stored_value(
        {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {"nodeName": node} if node else {}}
    )


def words(watcher: Watcher) -> list[str]:
    return [json.loads(line)["type"] for line in watcher.queue]


async def hub_with(store: MemoryStore) -> tuple[Hub, Objects]:
    await store.open()
    hub = Hub(store)
    objects = Objects(store, Registry(), hub, RealClock())
    hub.start()
    return hub, objects


def watcher(hub: Hub, objects: Objects, fields: str = "", labels: str = "", namespace: str = "") -> Watcher:
    selection = chosen(objects, POD, labels, fields)
    index = selection.index(POD) if selection is not None else None
    made = Watcher(POD.storage_prefix, namespace, FORM, selection, index, hub.seen)
    hub.add(made)
    return made


async def settle(hub: Hub, store: MemoryStore) -> None:
    while hub.seen < store.revision:
        await asyncio.sleep(0)


async def test_a_watcher_of_one_node_receives_pods_added_and_removed_there() -> None:
    store = MemoryStore()
    hub, objects = await hub_with(store)
    there = watcher(hub, objects, fields="spec.nodeName=n1")
    elsewhere = watcher(hub, objects, fields="spec.nodeName=n2")
    await store.put(POD.key("ns", "a"), pod("a"))
    await store.put(POD.key("ns", "a"), pod("a", node="n1"))
    await store.put(POD.key("ns", "a"), pod("a", node="n1", color="red"))
    await store.delete(POD.key("ns", "a"))
    await settle(hub, store)
    assert words(there) == ["ADDED", "MODIFIED", "DELETED"]
    assert words(elsewhere) == []
    await hub.stop()


async def test_a_watcher_of_one_node_gets_a_change_before_watchers_of_everything() -> None:
    store = MemoryStore()
    hub, objects = await hub_with(store)
    await store.put(POD.key("ns", "b"), pod("b"))
    await settle(hub, store)
    there, everywhere = watcher(hub, objects, fields="spec.nodeName=n1"), watcher(hub, objects)
    await store.put(POD.key("ns", "a"), pod("a", node="n1"))
    while not there.queue:
        await asyncio.sleep(0)
    # A decision, a ledger write and a kernel write are separate tasks, each woken by the previous one.
    for _ in range(8):
        assert not everywhere.queue
        await asyncio.sleep(0)
    await settle(hub, store)
    assert words(there) == words(everywhere) == ["ADDED"]
    await hub.stop()


async def test_watchers_of_everything_do_not_wait_for_a_node_that_no_one_watches() -> None:
    store = MemoryStore()
    hub, objects = await hub_with(store)
    await store.put(POD.key("ns", "b"), pod("b"))
    await settle(hub, store)
    watcher(hub, objects, fields="spec.nodeName=n2")
    everywhere = watcher(hub, objects)
    await store.put(POD.key("ns", "a"), pod("a", node="n1"))
    for _ in range(TURNS_OF_AN_ANSWER + 3):
        await asyncio.sleep(0)
    assert words(everywhere) == ["ADDED"]
    await hub.stop()


async def test_listeners_do_not_wait_for_the_watchers_of_an_earlier_change() -> None:
    store = MemoryStore()
    hub, objects = await hub_with(store)
    heard: list[str] = []
    hub.listen("test", lambda event: heard.append(event.name))
    there, everywhere = watcher(hub, objects, fields="spec.nodeName=n1"), watcher(hub, objects)
    await store.put(POD.key("ns", "a"), pod("a", node="n1"))
    while not there.queue:
        await asyncio.sleep(0)
    await store.put(POD.key("ns", "b"), pod("b"))
    await asyncio.sleep(0)
    assert (heard, words(everywhere)) == (["a", "b"], [])
    await settle(hub, store)
    assert words(everywhere) == ["ADDED", "ADDED"]
    await hub.stop()


async def test_watchers_list_again_if_a_change_cannot_be_distributed() -> None:
    store = MemoryStore()
    hub, objects = await hub_with(store)
    there = watcher(hub, objects, fields="spec.nodeName=n1")
    await store.put(POD.key("ns", "a"), b"not an object")
    await settle(hub, store)
    assert there.lagging
    later = watcher(hub, objects)
    await store.put(POD.key("ns", "b"), pod("b"))
    await settle(hub, store)
    assert words(later) == ["ADDED"]
    assert not hub.problem()
    await hub.stop()


async def test_leaving_a_selection_shows_the_last_selected_state_at_the_new_revision() -> None:
    store = MemoryStore()
    hub, objects = await hub_with(store)
    red = watcher(hub, objects, labels="color=red")
    await store.put(POD.key("ns", "a"), pod("a", color="red"))
    blue = await store.put(POD.key("ns", "a"), pod("a", color="blue"))
    await settle(hub, store)
    last = json.loads(red.queue[-1])
    assert last["type"] == "DELETED"
    assert last["object"]["metadata"]["labels"] == {"color": "red"}
    assert last["object"]["metadata"]["resourceVersion"] == str(blue.modified)
    await hub.stop()


async def test_an_event_is_encoded_once_for_all_its_watchers() -> None:
    store = MemoryStore()
    hub, objects = await hub_with(store)
    several = [watcher(hub, objects) for _ in range(3)]
    await store.put(POD.key("ns", "a"), pod("a"))
    await settle(hub, store)
    assert len({id(item.queue[0]) for item in several}) == 1
    await hub.stop()


async def test_others_get_a_turn_while_many_changes_are_handed_out() -> None:
    store = MemoryStore()
    hub, _ = await hub_with(store)
    for number in range(3 * IN_A_ROW):
        await store.put(POD.key("ns", f"p{number}"), pod(f"p{number}"))
    behind: list[int] = []
    while hub.seen < store.revision:
        await asyncio.sleep(0)
        behind.append(store.revision - hub.seen)
    assert len(set(behind)) > 2
    await hub.stop()


async def test_namespaces_are_kept_apart() -> None:
    store = MemoryStore()
    hub, objects = await hub_with(store)
    inside, outside = watcher(hub, objects, namespace="ns"), watcher(hub, objects, namespace="other")
    await store.put(POD.key("ns", "a"), pod("a"))
    await settle(hub, store)
    assert (words(inside), words(outside)) == (["ADDED"], [])
    await hub.stop()


def test_a_watcher_that_does_not_keep_up_is_cut_off() -> None:
    slow = Watcher(POD.storage_prefix, "", FORM, None, None, 0)
    key = POD.key("ns", "a")
    for revision in range(1, BUFFER + 3):
        record = Record(key, pod("a"), 1, revision)
        slow.offer(WatchEvent(Change(revision, key, record, None)))
    assert slow.lagging
    assert not slow.queue


def test_what_was_seen_is_not_offered_again() -> None:
    one = Watcher(POD.storage_prefix, "", FORM, None, None, 5)
    key = POD.key("ns", "a")
    one.offer(WatchEvent(Change(5, key, Record(key, pod("a"), 5, 5), None)))
    assert not one.queue


def change(revision: int) -> WatchEvent:
    key = POD.key("ns", "a")
    return WatchEvent(Change(revision, key, Record(key, pod("a"), 1, revision), None))


async def waiting_with(
    taken: list[bytes], takes: bool = True, subscriber: Subscriber | None = None
) -> tuple[Watcher, asyncio.Task[None]]:
    """A watcher whose reader waits, and a sink that records what it receives."""

    def sink(data: bytes) -> bool:
        taken.append(data)
        return takes

    one = Watcher(POD.storage_prefix, "", FORM, None, None, 0, sink=sink, subscriber=subscriber)
    reader = asyncio.ensure_future(one.wait(60))
    await asyncio.sleep(0)
    return one, reader


async def test_a_reader_that_waits_gets_a_change_without_being_woken() -> None:
    taken: list[bytes] = []
    one, reader = await waiting_with(taken)
    one.offer(change(1))
    await asyncio.sleep(0)
    assert len(taken) == 1 and not one.queue and not reader.done()
    one.close()
    await reader


async def test_a_reader_in_this_process_gets_the_object_and_nothing_is_encoded() -> None:
    taken: list[Any] = []
    one, reader = await waiting_with([], subscriber=lambda word, obj: taken.append((word, obj)))
    key = POD.key("ns", "a")
    fields = [{"manager": "kubectl"}]
    value = wire.stored_value({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "managedFields": fields}})
    before, after = Record(key, value, 1, 1), Record(key, value, 1, 2)
    events = [WatchEvent(Change(2, key, after, before)), WatchEvent(Change(3, key, None, after))]
    for event in events:
        one.offer(event)
        assert event._encoded == {}
    shown = [{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": at}} for at in "23"]
    assert taken == [("MODIFIED", shown[0]), ("DELETED", shown[1])]
    assert (events[0].new or {})["metadata"]["managedFields"] == fields
    one.close()
    await reader


async def test_what_is_shown_in_another_shape_is_handed_over_in_that_shape() -> None:
    other = WatchEvent(change(1).change)
    shown = other.shown("ADDED", MetadataOnly())
    assert shown == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"name": "a", "namespace": "ns", "resourceVersion": "1"},
    }
    assert other.shown("ADDED", FORM)["kind"] == "Pod"


async def test_an_object_that_a_subscriber_fails_on_waits_and_so_does_all_behind_it() -> None:
    def fails(word: str, obj: Any) -> None:
        raise ValueError

    one, reader = await waiting_with([], subscriber=fails)
    for revision in (1, 2):
        one.offer(change(revision))
    found = [(word, obj["metadata"]["resourceVersion"]) for word, obj in one.objects]
    assert (found, list(one.queue)) == ([("ADDED", "1"), ("ADDED", "2")], [])
    await reader


def test_a_subscriber_that_does_not_keep_up_is_cut_off() -> None:
    slow = Watcher(POD.storage_prefix, "", FORM, None, None, 0, subscriber=lambda word, obj: None)
    for revision in range(1, BUFFER + 3):
        slow.offer(change(revision))
    assert slow.lagging
    assert not slow.objects


async def test_data_that_exceeds_a_sinks_buffer_waits_in_order() -> None:
    refused: list[bytes] = []
    one, reader = await waiting_with(refused, takes=False)
    one.offer(change(1))
    one.offer(change(2))
    assert len(refused) == 1 and len(one.queue) == 2
    await reader


async def test_only_so_many_watchers_are_served_before_anything_else() -> None:
    taken: list[bytes] = []
    watchers = [await waiting_with(taken) for _ in range(events.AT_ONCE + 3)]
    event = change(1)
    for item, _ in watchers:
        item.offer(event)
    assert len(taken) == events.AT_ONCE
    assert sum(len(item.queue) for item, _ in watchers) == 3
    for item, reader in watchers:
        item.close()
        await reader
