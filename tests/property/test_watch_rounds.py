"""However many changes are delivered at a time, every watcher gets those that concern it, in their order."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.registry.kinds import NODE, POD, Kind, Registry
from podfit.apiserver.representation import wire
from podfit.apiserver.representation.forms import Spliced
from podfit.apiserver.representation.selection import chosen
from podfit.apiserver.storage.events import Watcher, WatchEvent
from podfit.apiserver.storage.hub import Hub
from podfit.apiserver.storage.objects import Objects
from podfit.kit.clock import RealClock
from podfit.store.memory import MemoryStore

CHANGES = st.lists(
    st.tuples(
        st.sampled_from((POD, POD, NODE)),
        st.sampled_from(("x", "y")),
        st.sampled_from(("a", "b")),
        st.sampled_from(("", "n1", "n2", None)),
    ),
    min_size=1,
    max_size=50,
)
"""Kind, namespace, name and the node after the change; None if the object is deleted."""
WATCHES = (
    (POD, "", ""),
    (POD, "x", ""),
    (POD, "", "spec.nodeName=n1"),
    (POD, "y", "spec.nodeName="),
    (POD, "", "spec.nodeName!=n1"),
    (POD, "x", "metadata.name=a"),
    (NODE, "", ""),
)


@given(CHANGES)
def test_every_watcher_gets_its_changes_in_order(changes: list[Any]) -> None:
    asyncio.run(_compare(changes))


async def _compare(changes: list[Any]) -> None:
    store = MemoryStore()
    await store.open()
    hub = Hub(store)
    objects = Objects(store, Registry(), hub, RealClock())
    hub.start()
    watchers, alone = [_watcher(objects, *watch) for watch in WATCHES], [_watcher(objects, *watch) for watch in WATCHES]
    for watcher in watchers:
        hub.add(watcher)
    backlog = store.watch("/registry/", store.revision)
    for kind, namespace, name, node in changes:
        await _write(store, kind, namespace if kind.namespaced else "", name, node)
    while hub.seen < store.revision:
        await asyncio.sleep(0)
    while (change := backlog.next_nowait()) is not None:
        for watcher in alone:
            if change.key.startswith(f"{watcher.resource}{watcher.namespace}"):
                watcher.offer(WatchEvent(change))
    assert [list(watcher.queue) for watcher in watchers] == [list(watcher.queue) for watcher in alone]
    backlog.close()
    await hub.stop()


def _watcher(objects: Objects, kind: Kind, namespace: str, fields: str) -> Watcher:
    selection = chosen(objects, kind, "", fields)
    index = selection.index(kind) if selection is not None else None
    return Watcher(kind.storage_prefix, namespace, Spliced(wire.Splicer(kind)), selection, index, 0)


async def _write(store: MemoryStore, kind: Kind, namespace: str, name: str, node: str | None) -> None:
    key = kind.key(namespace, name)
    if node is None:
        if store.get(key) is not None:
            await store.delete(key)
        return
    meta = {"name": name, "namespace": namespace} if namespace else {"name": name}
    obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta, "spec": {"nodeName": node}}
    await store.put(key, wire.stored_value(obj))
