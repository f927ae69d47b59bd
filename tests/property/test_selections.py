"""A selection gives the same result for records, of which it decodes little, and for decoded objects."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.registry.kinds import EVENT, NODE, POD, Kind, Registry, kind_named
from podfit.apiserver.representation import wire
from podfit.apiserver.representation.selection import chosen
from podfit.apiserver.representation.views import SELECTABLE, Views
from podfit.apiserver.storage.events import WatchEvent
from podfit.apiserver.storage.hub import Hub
from podfit.apiserver.storage.objects import Objects
from podfit.kit.clock import RealClock
from podfit.store.backend import Change, Record
from podfit.store.memory import MemoryStore

KINDS = (POD, EVENT, NODE, kind_named("ReplicationController"), kind_named("Job"), kind_named("Secret"))
WORDS = st.sampled_from(("", "a", "b", "true", "false", "0", "1"))
VALUES = st.one_of(st.none(), st.booleans(), st.integers(0, 2), WORDS)
LABELS = st.one_of(st.none(), st.dictionaries(st.sampled_from(("x", "y")), st.sampled_from(("a", "b"))))


@st.composite
def objects(draw: st.DrawFn, kind: Kind) -> dict[str, Any]:
    """Objects with some of the fields by which the kind can be selected."""
    names = sorted(SELECTABLE[kind.group, kind.plural])
    meta: dict[str, Any] = {"name": draw(st.sampled_from("ab")), "namespace": "ns"}
    if (labels := draw(LABELS)) is not None:
        meta["labels"] = labels
    obj: dict[str, Any] = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}
    for name in draw(st.lists(st.sampled_from(names), unique=True)):
        value = draw(st.lists(st.fixed_dictionaries({"ip": WORDS}))) if name == "status.podIPs" else draw(VALUES)
        _put(obj, Views._path(name), value)
    for part in draw(st.lists(st.sampled_from(("spec", "status", "source")), unique=True)):
        obj.setdefault(part, draw(st.sampled_from((None, {}))))
    return obj


@st.composite
def cases(draw: st.DrawFn) -> tuple[Kind, dict[str, Any], dict[str, Any], str, str]:
    """Two states of an object, and selectors."""
    kind = draw(st.sampled_from(KINDS))
    names = sorted(SELECTABLE[kind.group, kind.plural])
    asked = draw(st.lists(st.sampled_from((*names, "metadata.name")), max_size=3))
    fields = ",".join(f"{name}{draw(st.sampled_from(('=', '!=')))}{draw(WORDS)}" for name in asked)
    return (
        kind,
        draw(objects(kind)),
        draw(objects(kind)),
        draw(st.sampled_from(("", "x", "!x", "x=a", "x in (a,b),y!=b"))),
        fields,
    )


def _put(obj: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *above, last = path
    for part in above:
        obj = obj.setdefault(part, {})
    obj[last] = value


@given(cases())
def test_records_and_objects_are_selected_identically(
    case: tuple[Kind, dict[str, Any], dict[str, Any], str, str],
) -> None:
    kind, obj, other, labels, fields = case
    store = MemoryStore()
    selection = chosen(Objects(store, Registry(), Hub(store), RealClock()), kind, labels, fields)
    if selection is not None:
        key = kind.key("ns", "a")
        old, new = Record(key, wire.stored_value(obj), 1, 1), Record(key, wire.stored_value(other), 1, 2)
        taken = selection.takes(old), selection.takes(new)
        for before, after in ((old, new), (old, None), (None, new)):
            expected = before is not None and taken[0], after is not None and taken[1]
            assert selection.between(WatchEvent(Change(2, key, after, before))) == expected
