"""The order of a strategically merged list: what the patch says, with the server's own elements kept in between."""

from __future__ import annotations

import json
from typing import Any

from podfit.api.status import ApiError
from podfit.api.text.goprint import go_print


def _identity(item: Any, key: str | None) -> Any:
    return item.get(key) if key is not None and isinstance(item, dict) else item


class Places:
    """Where the elements of a list are, by their merge key or, without one, by themselves; the first of equals."""

    def __init__(self, items: list[Any], key: str | None) -> None:
        self._key = key
        self._at: dict[Any, int] = {}
        for index, item in enumerate(items):
            self._at.setdefault(_hashable(_identity(item, key)), index)

    def of(self, item: Any) -> int:
        """The place of the element that an element is merged with; -1 if there is none."""
        return self._at.get(_hashable(_identity(item, self._key)), -1)

    def add(self, item: Any, index: int) -> None:
        self._at.setdefault(_hashable(_identity(item, self._key)), index)


def _hashable(identity: Any) -> Any:
    if isinstance(identity, (dict, list)):
        return "json", json.dumps(identity, sort_keys=True)
    return identity


def enforce_order(items: list[Any], wanted: list[Any], server: list[Any], key: str | None) -> list[Any]:
    """Elements named in `wanted` come in its order; the others keep the server's order among themselves and, where
    possible, their place relative to the first. Elements the server did not have come as early as that allows."""
    named, others = [], []
    by_patch, by_server = Places(wanted, key), Places(server, key)
    for item in items:
        place = by_patch.of(item)
        if place >= 0:
            named.append((place, item))
        else:
            others.append((by_server.of(item), item))
    named.sort(key=lambda pair: pair[0])
    others.sort(key=lambda pair: pair[0])
    return _interleaved([item for _, item in others], [item for _, item in named], by_server)


def _interleaved(left: list[Any], right: list[Any], server: Places) -> list[Any]:
    out: list[Any] = []
    at = other = 0
    while at < len(left) and other < len(right):
        mine, theirs = server.of(left[at]), server.of(right[other])
        if mine >= 0 and theirs >= 0 and mine < theirs:
            out.append(left[at])
            at += 1
        else:
            out.append(right[other])
            other += 1
    return out + left[at:] + right[other:]


def validate_order(patch: list[Any], order: list[Any], key: str | None) -> None:
    """A patch whose elements contradict its own `$setElementOrder` is refused."""
    at = 0
    for item in patch:
        if isinstance(item, dict) and item.get("$patch") is not None:
            continue
        identity = _identity(item, key)
        while at < len(order) and _identity(order[at], key) != identity:
            at += 1
        if at == len(order):
            wanted = f"$setElementOrder list:\n{go_print(order)}\n"
            raise ApiError(500, "", f"The order in patch list:\n{go_print(patch)}\n doesn't match {wanted}")
        at += 1
