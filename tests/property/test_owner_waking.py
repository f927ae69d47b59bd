"""The present and previous controllers of an object are notified of every change of it; controllers that may
adopt an orphan are notified if it differs from before.
"""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.client import Cache, Client
from podfit.client.transport import HttpTransport
from podfit.controllers.owners import OwnerWatch, controller_of

KINDS = ("ReplicaSet", "Job")
owner = st.fixed_dictionaries(
    {"kind": st.sampled_from(KINDS), "name": st.sampled_from("ab"), "controller": st.booleans()}
)
metadata = st.fixed_dictionaries(
    {},
    optional={
        "ownerReferences": st.lists(owner, max_size=2),
        "labels": st.dictionaries(st.just("app"), st.sampled_from("ab")),
        "generation": st.integers(1, 2),
    },
)
changes = st.lists(
    st.tuples(st.sampled_from("xy"), st.sampled_from((False, False, True)), st.booleans(), metadata), max_size=12
)
"""Which pod, whether it is deleted, whether the rest is identical or merely equal, and its new values."""


def expected(before: Object | None, after: Object | None) -> tuple[set[tuple[str, str]], bool]:
    """The owners notified, and whether the object is offered to all controllers that may adopt it."""
    owners = {
        (above["kind"], above["name"])
        for obj in (before, after)
        if obj is not None and (above := controller_of(obj)) is not None
    }
    if after is None or controller_of(after) is not None:
        return owners, False
    fields = ("ownerReferences", "labels")
    was, now = (before or {}).get("metadata", {}), after["metadata"]
    return owners, before is None or any(was.get(field) != now.get(field) for field in fields)


@given(changes)
def test_owners_are_notified_of_their_objects_and_adopters_of_orphans(reported: list[Any]) -> None:
    cache = Cache(Client(HttpTransport("https://nobody")), POD)
    heard: set[tuple[str, str]] = set()
    found: list[Object] = []
    waking = OwnerWatch(cache)
    for kind in KINDS:
        waking.owned_by(kind, lambda key, before, after, kind=kind: heard.add((kind, key[1])))  # type: ignore[misc]
    waking.orphans(found.append)
    for name, goes, shared, meta in reported:
        before = cache.get("ns", name)
        kept = before["metadata"] if before is not None else {}
        stays = {field: kept[field] for field in meta if field in kept and kept[field] == meta[field] and shared}
        identity = {"namespace": "ns", "name": name, "resourceVersion": "1"}
        after = {"metadata": {**copy.deepcopy(meta), **stays, **identity}}
        heard.clear()
        found.clear()
        cache._take("DELETED" if goes else "MODIFIED", after)
        if goes:
            assert heard == (expected(after, None)[0] if before is not None else set())
            assert not found
        else:
            owners, offered = expected(before, after)
            assert heard == owners
            assert found == ([after] if offered else [])
