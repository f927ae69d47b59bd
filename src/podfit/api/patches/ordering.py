"""The order of a strategically merged list: the order of the patch, with the server's own elements in between."""

from __future__ import annotations

import json
from typing import Any

from podfit.api.status import ApiError
from podfit.api.text.goprint import go_print


def names_of(items: list[Any], key: str | None) -> list[Any]:
    """The identities of the elements of a list, hashable: their merge keys or, without one, the elements themselves."""
    if key is not None:
        items = [item.get(key) if isinstance(item, dict) else item for item in items]
    return [item if item.__class__ is str else _hashable(item) for item in items]


def _hashable(name: Any) -> Any:
    return ("json", json.dumps(name, sort_keys=True)) if isinstance(name, (dict, list)) else name


def places_of(items: list[Any], key: str | None) -> dict[Any, int]:
    """The index of the element with each name; the first of equals."""
    places: dict[Any, int] = {}
    for index, name in enumerate(names_of(items, key)):
        places.setdefault(name, index)
    return places


def enforce_order(items: list[Any], wanted: list[Any], server: list[Any], key: str | None) -> list[Any]:
    """Elements named in `wanted` are in its order; the others keep the server's order among themselves and, where
    possible, their position relative to the first. Elements that the server did not have come as early as that
    allows."""
    names, by_patch = names_of(items, key), places_of(wanted, key)
    if names == list(by_patch):
        return items
    by_server = places_of(server, key)
    named, others = [], []
    for item, name in zip(items, names, strict=True):
        if name in by_patch:
            named.append((by_patch[name], by_server.get(name, -1), item))
        else:
            others.append((by_server.get(name, -1), item))
    named.sort(key=lambda found: found[0])
    others.sort(key=lambda found: found[0])
    return _interleaved(others, [(place, item) for _, place, item in named])


def _interleaved(left: list[tuple[int, Any]], right: list[tuple[int, Any]]) -> list[Any]:
    """Merges two lists of (position on the server, element)."""
    out: list[Any] = []
    at = other = 0
    while at < len(left) and other < len(right):
        if 0 <= left[at][0] < right[other][0]:
            out.append(left[at][1])
            at += 1
        else:
            out.append(right[other][1])
            other += 1
    return out + [item for _, item in left[at:] + right[other:]]


def validate_order(patch: list[Any], order: list[Any], key: str | None) -> None:
    """Rejects a patch whose elements contradict its own `$setElementOrder`."""
    plain = [item for item in patch if not (isinstance(item, dict) and item.get("$patch") is not None)]
    if not order:
        return
    names, wanted = names_of(plain, key), names_of(order, key)
    left = iter(wanted)
    if names != wanted and not all(name in left for name in names):
        said = f"$setElementOrder list:\n{go_print(order)}\n"
        raise ApiError(500, "", f"The order in patch list:\n{go_print(patch)}\n doesn't match {said}")
