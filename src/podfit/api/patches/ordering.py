"""The order of a strategically merged list: what the patch says, with the server's own elements kept in between."""

from __future__ import annotations

from typing import Any

from podfit.api.goprint import go_print
from podfit.api.status import ApiError


def _identity(item: Any, key: str | None) -> Any:
    return item.get(key) if key is not None and isinstance(item, dict) else item


def _position(items: list[Any], identity: Any, key: str | None) -> int:
    for index, item in enumerate(items):
        if _identity(item, key) == identity:
            return index
    return -1


def enforce_order(items: list[Any], wanted: list[Any], server: list[Any], key: str | None) -> list[Any]:
    """Elements named in `wanted` come in its order; the others keep the server's order among themselves and, where
    possible, their place relative to the first. Elements the server did not have come as early as that allows."""
    named, others = [], []
    for item in items:
        place = _position(wanted, _identity(item, key), key)
        if place >= 0:
            named.append((place, item))
        else:
            others.append((_position(server, _identity(item, key), key), item))
    named.sort(key=lambda pair: pair[0])
    others.sort(key=lambda pair: pair[0])
    return _interleaved([item for _, item in others], [item for _, item in named], server, key)


def _interleaved(left: list[Any], right: list[Any], server: list[Any], key: str | None) -> list[Any]:
    out: list[Any] = []
    at = other = 0
    while at < len(left) and other < len(right):
        mine = _position(server, _identity(left[at], key), key)
        theirs = _position(server, _identity(right[other], key), key)
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
