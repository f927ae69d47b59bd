"""Caches the set of fields owned by the creator of an object, by the object's structure.

Events, Leases and other small objects are created in great numbers by the same few components, and differ only in their
values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from podfit.api.objects import Object
from podfit.api.patches.apply.fieldset import FieldSet
from podfit.api.schema.types import Struct

_REMEMBERED = 128
_SCALARS = frozenset((str, int, float, bool, type(None)))
Outline = tuple[Hashable, ...]


def outline(value: Object) -> Outline | None:
    """The structure of an object: the fields that are set, and which of them are empty, recursively. Ownership depends
    on nothing else in objects without lists (whose items may be identified by their values). None for an object with
    a list or a value that is not plain JSON."""
    out: list[Hashable] = [tuple(value)]
    for name, item in value.items():
        if item.__class__ is dict:
            below = outline(item)
            if below is None:
                return None
            out += (name, below)
        elif item.__class__ not in _SCALARS:
            return None
        elif not item:
            out += (name, item)
    return tuple(out)


def memoized(struct: Struct, about: Hashable, new: Object, find: Callable[[], FieldSet]) -> FieldSet:
    """The result of `find` for the new object, or for an earlier one of the same structure; `about` contains everything
    else that the result depends on. Read only."""
    shape = outline(new)
    if shape is None:
        return find()
    known: dict[Hashable, FieldSet] = struct.cache.setdefault("outlines", {})
    found = known.get((about, shape))
    if found is None:
        if len(known) >= _REMEMBERED:
            known.clear()
        found = known[about, shape] = find()
    return found
