"""Ownership as an in-memory graph of UIDs, and the consequences for an object. Pure.

The graph contains the cached objects (`nodes`) and owners that are only named by a reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


@dataclass(slots=True)
class Item:
    kind: Kind
    namespace: str
    name: str
    uid: str
    owners: list[Object]
    finalizers: list[str]
    deleting: bool

    def still(self, obj: Object) -> bool:
        """Whether owners, finalizers and deletion of the object are unchanged."""
        meta = obj["metadata"]
        return (
            self.owners == (meta.get("ownerReferences") or [])
            and self.finalizers == (meta.get("finalizers") or [])
            and self.deleting == bool(meta.get("deletionTimestamp"))
        )

    def is_named_by(self, reference: Object, namespace: str) -> bool:
        """Whether an owner reference of an object in this namespace has this object's type and name."""
        said = reference.get("apiVersion"), reference.get("kind"), reference.get("name")
        return said == (self.kind.api_version, self.kind.kind, self.name) and self.namespace in ("", namespace)

    @property
    def foreground(self) -> bool:
        return self.deleting and FOREGROUND in self.finalizers

    @property
    def orphaning(self) -> bool:
        return self.deleting and ORPHAN in self.finalizers


def item_of(kind: Kind, obj: Object) -> Item:
    meta = obj["metadata"]
    return Item(
        kind,
        meta.get("namespace", ""),
        meta["name"],
        meta["uid"],
        meta.get("ownerReferences") or [],
        meta.get("finalizers") or [],
        bool(meta.get("deletionTimestamp")),
    )


@dataclass
class Graph:
    nodes: dict[str, Item] = field(default_factory=dict)
    dependents: dict[str, set[str]] = field(default_factory=dict)

    def put(self, item: Item) -> None:
        self.drop(item.uid)
        self.nodes[item.uid] = item
        for owner in item.owners:
            self.dependents.setdefault(owner["uid"], set()).add(item.uid)

    def drop(self, uid: str) -> Item | None:
        item = self.nodes.pop(uid, None)
        if item is not None:
            for owner in item.owners:
                below = self.dependents.get(owner["uid"])
                if below is not None:
                    below.discard(uid)
                    if not below:
                        del self.dependents[owner["uid"]]
        return item

    def below(self, uid: str) -> list[Item]:
        return [self.nodes[child] for child in self.dependents.get(uid, ()) if child in self.nodes]


@dataclass(frozen=True, slots=True)
class NoAction:
    pass


@dataclass(frozen=True, slots=True)
class Delete:
    policy: str
    unblock: bool = False
    """Its owners no longer wait for it: one of its dependents is waiting, too, perhaps in a cycle."""


@dataclass(frozen=True, slots=True)
class DropReferences:
    """Owners that are gone while another still exists: remove the references, keep the object."""

    uids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DropFinalizer:
    finalizer: str


@dataclass(frozen=True, slots=True)
class Orphan:
    """Remove the references from all dependents, then release the owner."""

    dependents: tuple[str, ...]


Verdict = NoAction | Delete | DropReferences | DropFinalizer | Orphan


def judge(graph: Graph, item: Item, absent: Callable[[Object, str], bool]) -> Verdict:
    """The action for `item`. `absent(reference, namespace)` returns whether an owner is known not to exist."""
    if item.orphaning:
        return Orphan(tuple(child.uid for child in graph.below(item.uid)))
    if item.foreground:
        blocking = [child for child in graph.below(item.uid) if _blocks(child, item.uid)]
        return NoAction() if blocking else DropFinalizer(FOREGROUND)
    if item.deleting or not item.owners:
        return NoAction()
    gone = [owner for owner in item.owners if absent(owner, item.namespace)]
    waiting = [owner for owner in item.owners if owner not in gone and _waits(graph, owner)]
    solid = [owner for owner in item.owners if owner not in gone and owner not in waiting]
    if solid:
        dangling = tuple(owner["uid"] for owner in gone + waiting)
        return DropReferences(dangling) if dangling else NoAction()
    below = graph.below(item.uid)
    if waiting and below:
        return Delete("Foreground", unblock=any(child.foreground for child in below))
    # If the object itself is being deleted, its own finalizers count.
    return Delete(
        "Orphan" if ORPHAN in item.finalizers else "Foreground" if FOREGROUND in item.finalizers else "Background"
    )


def _blocks(child: Item, owner_uid: str) -> bool:
    return any(owner["uid"] == owner_uid and owner.get("blockOwnerDeletion") for owner in child.owners)


def _waits(graph: Graph, owner: Object) -> bool:
    node = graph.nodes.get(owner["uid"])
    return node is not None and node.foreground
