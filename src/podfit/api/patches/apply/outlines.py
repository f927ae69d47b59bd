"""The fields owned by the creator of an object: all that it sets. Computed once for objects of the same structure.

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
    """Which fields are set, and which of them are empty, recursively: ownership depends on nothing else, as long as
    there are no lists, whose items may be identified by their values. None if there are, or anything else that is more
    than plain JSON."""
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
    """The result of `find` for the new object, or for an earlier one of the same structure; `about` is what else the
    result depends on. Read only."""
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
