"""Sets of fields in the format of `managedFields` (FieldsV1), used directly: nested dicts.

An element is `f:<field>`, `k:<keys of a list item>` or `v:<value of a set>`. A node is a member of the set if it is
empty or contains `"."`; its other keys are elements below it. Sets share parts freely and are never modified in place.
The root is not a member: the empty set is `{}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from podfit.api.text.gojson import GoSyntaxError, parse
from podfit.api.text.remember import remembered

FieldSet = dict[str, Any]
SELF = "."


def is_valid(fields: Any) -> bool:
    """Whether a value from outside is a valid field set."""
    if not isinstance(fields, dict):
        return False
    return all((element == SELF or _is_element(element)) and is_valid(node) for element, node in fields.items())


def _is_element(element: str) -> bool:
    kind, colon, rest = element.partition(":")
    if not colon or kind not in ("f", "k", "v", "i"):
        return False
    if kind == "f":
        return True
    try:
        value = parse(rest.encode())
    except GoSyntaxError:
        return False
    return kind != "k" or isinstance(value, dict)


def is_member(node: FieldSet) -> bool:
    return not node or SELF in node


def _node(member: bool, below: FieldSet) -> FieldSet | None:
    """A node from its parts; None if neither it nor anything below is in the set."""
    if not below:
        return {} if member else None
    return {SELF: {}, **below} if member else below


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left:
        return right
    if not right or left is right:
        return left
    out = dict(left)
    for element, node in right.items():
        mine = out.get(element)
        out[element] = node if mine is None else _union(mine, node)
    return out


def _union(left: FieldSet, right: FieldSet) -> FieldSet:
    if left is right:
        return left
    member = is_member(left) or is_member(right)
    below = {element: node for element, node in left.items() if element != SELF}
    for element, node in right.items():
        if element != SELF:
            mine = below.get(element)
            below[element] = node if mine is None else _union(mine, node)
    made = _node(member, below)
    return {} if made is None else made


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Members of the left that are not members of the right (their descendants remain)."""
    if left.keys().isdisjoint(right):
        return left
    out = {}
    for element, node in left.items():
        theirs = right.get(element)
        kept = node if theirs is None else _difference(node, theirs)
        if kept is not None:
            out[element] = kept
    return out


def _difference(left: FieldSet, right: FieldSet) -> FieldSet | None:
    below = difference({e: n for e, n in left.items() if e != SELF} if SELF in left else left, right)
    return _node(is_member(left) and not is_member(right), below)


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    out = {}
    for element, node in left.items():
        theirs = right.get(element)
        if theirs is None or element == SELF:
            continue
        both = _node(is_member(node) and is_member(theirs), intersection(node, theirs))
        if both is not None:
            out[element] = both
    return out


def overlaps(left: FieldSet, right: FieldSet) -> bool:
    """Whether any member of the right is one of the left."""
    for element, node in right.items():
        mine = left.get(element)
        if mine is not None and ((is_member(mine) and is_member(node)) or overlaps(mine, node)):
            return True
    return False


def covers(fields: FieldSet, part: FieldSet) -> bool:
    """Whether all members of the part are members of the set."""
    for element, node in part.items():
        mine = fields if element == SELF else fields.get(element)
        if mine is None:
            return False
        if node:
            if not covers(mine, node):
                return False
        elif mine and SELF not in mine:
            return False
    return True


def members(fields: FieldSet, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths in the set, in order."""
    for element in sorted(element for element in fields if element != SELF):
        node, path = fields[element], (*above, element)
        if is_member(node):
            yield path
        yield from members(node, path)


def in_order(fields: FieldSet) -> FieldSet:
    """The same set with its elements in Kubernetes' canonical order: clients compare the text of sets."""
    names = list(fields)
    changed = False
    if len(names) > 1:
        ordered = sorted(names)
        if ordered[-1][0] > "f":  # Items of a list.
            ordered.sort(key=_position)
        changed = names != ordered
        names = ordered
    out = {}
    for name in names:
        node = fields[name]
        if node:
            below = in_order(node)
            changed = changed or below is not node
            out[name] = below
        else:
            out[name] = node
    return out if changed else fields


_KINDS = {SELF: 0, "f": 1, "k": 2, "v": 3, "i": 4}


@remembered(4096)
def _position(element: str) -> tuple[Any, ...]:
    kind, rest = element[0], element[2:]
    if kind in "kv":
        value = parse(rest.encode())
        return (_KINDS[kind], *(_ranked_pairs(value) if kind == "k" else _ranked(value)))
    return (_KINDS[kind], int(rest) if kind == "i" else rest)


def _ranked_pairs(value: dict[str, Any]) -> list[Any]:
    return [(name, _ranked(value[name])) for name in sorted(value)]


def _ranked(value: Any) -> tuple[int, Any]:
    """Sorts values of any type: numbers, strings, booleans, lists, maps, null."""
    match value:
        case bool():
            return 2, value
        case int() | float():
            return 0, value
        case str():
            return 1, value
        case list():
            return 3, [_ranked(item) for item in value]
        case dict():
            return 4, _ranked_pairs(value)
    return 5, ""


Patterns = dict[str, Any]
"""Paths by their elements, as a tree with empty leaves; `*` matches any element and has no siblings."""


def patterns(paths: Iterable[tuple[str, ...]]) -> Patterns:
    tree: Patterns = {}
    for path in paths:
        node = tree
        for name in path:
            node = node.setdefault("*" if name == "*" else "f:" + name, {})
    return tree


def without(fields: FieldSet, places: Patterns) -> FieldSet:
    """The set without these paths and everything below them."""
    out = {}
    anything = places.get("*")
    for element, node in fields.items():
        deeper = places.get(element, anything)
        if deeper is None or (deeper and not node):
            out[element] = node
        elif deeper and (kept := without(node, deeper)):
            out[element] = kept
    return out


def only(fields: FieldSet, places: Patterns) -> FieldSet:
    """The part of the set at or below these paths."""
    out = {}
    anything = places.get("*")
    for element, node in fields.items():
        deeper = places.get(element, anything)
        if deeper is None:
            continue
        kept = only(node, deeper) if deeper else node
        if kept or not deeper:
            out[element] = kept
    return out


def path_text(path: tuple[str, ...]) -> str:
    """A path as shown in messages: `.spec.containers[name="c1"].image`."""
    out = []
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "f":
            out.append(f".{rest}")
        elif kind == "k":
            keys = json.loads(rest)
            shown = (f"{key}={_value_text(keys[key])}" for key in sorted(keys))
            out.append("[" + ",".join(shown) + "]")
        elif kind == "v":
            out.append(f"[={rest}]")
        else:
            out.append(f"[{rest}]")
    return "".join(out)


def _value_text(value: Any) -> str:
    """A value as shown in messages. A value that is not a scalar, and so not a key, is printed without separators."""
    if isinstance(value, dict):
        return "".join(f"{key}={_value_text(value[key])}" for key in sorted(value))
    if isinstance(value, list):
        return "[" + ",".join(map(_value_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
