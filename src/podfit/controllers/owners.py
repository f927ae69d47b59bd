"""Finds the controller of an object and notifies it of the object's changes. One watch serves all controllers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from podfit.api.objects import Object
from podfit.client import Cache
from podfit.client.cache import Key

log = logging.getLogger(__name__)

OnChange = Callable[[Key, Object | None, Object | None], None]
"""Called with an owner's (namespace, name) and an object of it before and after a change: None before if the object
became this owner's, None after if it no longer is."""
Found = Callable[[Object], None]


def controller_of(obj: Object) -> Object | None:
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return owner  # type: ignore[no-any-return]
    return None


def controller_uid(obj: Object) -> Sequence[str]:
    """The UID of the owner that controls `obj`, if one does."""
    owners = obj["metadata"].get("ownerReferences")
    return [owner["uid"] for owner in owners if owner.get("controller")] if owners else ()


def orphan_in(obj: Object) -> Iterable[str]:
    """The namespace of an object without a controller, where a controller may look for objects to adopt."""
    return () if controller_uid(obj) else (obj["metadata"].get("namespace", ""),)


def same_fields(before: Object, after: Object, names: tuple[str, ...]) -> bool:
    """Compares fields of metadata, first by identity: states of an object in one process share unchanged parts."""
    was, now = before["metadata"], after["metadata"]
    for name in names:
        one, other = was.get(name), now.get(name)
        if one is not other and one != other:
            return False
    return True


class OwnerWatch:
    """Watches the objects of one cache on behalf of their owners."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._on_change: dict[str, list[OnChange]] = {}
        self._found: list[Found] = []
        cache.subscribe(self._changed)

    def owned_by(self, kind: str, on_change: OnChange) -> None:
        """Subscribes to every change of an object that an owner of this kind controls or controlled. Also called for
        existing objects."""
        self._on_change.setdefault(kind, []).append(on_change)
        for obj in self._cache:
            owner = controller_of(obj)
            if owner is not None and owner.get("kind") == kind:
                on_change((obj["metadata"]["namespace"], owner["name"]), None, obj)

    def orphans(self, found: Found) -> None:
        """Subscribes to objects that newly have no controller and may be adopted. Also called for existing ones."""
        self._found.append(found)
        for obj in self._cache:
            if controller_of(obj) is None:
                found(obj)

    def _changed(self, before: Object | None, after: Object | None) -> None:
        if before is not None and after is not None and same_fields(before, after, ("ownerReferences",)):
            owner = controller_of(after)
            if owner is not None:
                self._notify(owner, before, after)
            elif not same_fields(before, after, ("labels",)):
                self._find(after)
            return
        if before is not None and (owner := controller_of(before)) is not None:
            self._notify(owner, before, None)
        if after is not None:
            if (owner := controller_of(after)) is not None:
                self._notify(owner, None, after)
            else:
                self._find(after)

    def _notify(self, owner: Object, before: Object | None, after: Object | None) -> None:
        for on_change in self._on_change.get(owner.get("kind", ""), ()):
            try:
                on_change(((after or before or {})["metadata"]["namespace"], owner["name"]), before, after)
            except Exception:
                log.exception("a follower of %s failed", self._cache.kind.plural)

    def _find(self, orphan: Object) -> None:
        for found in self._found:
            try:
                found(orphan)
            except Exception:
                log.exception("a follower of %s failed", self._cache.kind.plural)
