"""JSON patch (RFC 6902) as the API server reads it: `apply(document, raw)`.

Any operation that does not apply is answered with the same 422. The document is not changed: containers are copied
along the path of each operation only.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from podfit.api.schema.gojson import GoSyntaxError, may_hold_duplicates, parse, parse_exact
from podfit.api.schema.scalars import json_word
from podfit.api.status import ApiError, bad_request

MOST_OPERATIONS = 10_000
_OP_FIELDS = ("op", "from", "path", "value")


class _NoSuchPlace(Exception):
    """The operation points at nothing, or asks what cannot be done."""


def apply(document: Any, raw: bytes) -> Any:
    """The patched document; ApiError 400 for no JSON patch, 413 for too long a one, 422 for one that does not apply."""
    return apply_operations(document, operations(raw))


def operations(raw: bytes) -> list[dict[str, Any]]:
    try:
        value = parse(raw)
    except GoSyntaxError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if value is None:
        return []
    if not isinstance(value, list):
        word = json_word(value)
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {word} into Go value of type []handlers.jsonPatchOp"
        )
    if len(value) > MOST_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(value)}"
        raise ApiError(413, "RequestEntityTooLarge", f"Request entity is too large: {message}")
    for item in value:
        _check_operation(item)
    return value


def _check_operation(item: Any) -> None:
    problem = "json: cannot unmarshal {} into Go {} of type {}"
    if not isinstance(item, dict):
        if item is None:
            raise rejected()
        raise bad_request("error decoding patch: " + problem.format(json_word(item), "value", "handlers.jsonPatchOp"))
    for name in ("op", "from", "path"):
        if not isinstance(item.get(name, ""), str):
            where = f"struct field jsonPatchOp.{name}"
            raise bad_request("error decoding patch: " + problem.format(json_word(item[name]), where, "string"))


def strict_problems(raw: bytes) -> list[str]:
    """Unknown and duplicate fields of the operations themselves."""
    found: list[str] = []
    items = parse(raw) or []
    if may_hold_duplicates(raw, items):
        items = parse_exact(raw)
    for index, item in enumerate(items):
        twice = getattr(item, "twice", ())
        found += [f'json patch duplicate field "[{index}].{key}"' for key in twice]
        found += [f'json patch unknown field "[{index}].{key}"' for key in item if key not in _OP_FIELDS]
    return found


def rejected() -> ApiError:
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def apply_operations(document: Any, patch: list[dict[str, Any]]) -> Any:
    try:
        for item in patch:
            document = _OPERATIONS[item.get("op", "")](document, item)
    except (_NoSuchPlace, KeyError, RecursionError):
        raise rejected() from None
    return document


def _parts(pointer: str) -> list[str]:
    """The keys of a pointer. Whatever precedes the first slash is not looked at."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _index(text: str, size: int) -> int:
    """A position in a list of `size`; negative ones count from the end."""
    try:
        index = int(text)
    except ValueError:
        raise _NoSuchPlace from None
    if not -size <= index < size:
        raise _NoSuchPlace
    return index + size if index < 0 else index


def _get(document: Any, parts: list[str]) -> Any:
    for part in parts:
        if isinstance(document, dict):
            if part not in document:
                raise _NoSuchPlace
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(part, len(document))]
        else:
            raise _NoSuchPlace
    return document


def _get_or_null(document: Any, parts: list[str]) -> Any:
    """Like `_get`, but a member that an object does not have counts as null."""
    above = _get(document, parts[:-1])
    if parts and isinstance(above, dict) and parts[-1] not in above:
        return None
    return _get(document, parts)


def _edited(document: Any, parts: list[str], how: str, value: Any = None) -> Any:
    """A copy of the document in which the place is added, replaced or removed. Replacing adds what is missing."""
    if not parts:
        raise _NoSuchPlace
    key = parts[0]
    if isinstance(document, dict):
        if len(parts) > 1 or how == "remove":
            _get(document, parts[:1])
        changed = dict(document)
        if len(parts) > 1:
            changed[key] = _edited(document[key], parts[1:], how, value)
        elif how == "remove":
            del changed[key]
        else:
            changed[key] = value
        return changed
    if not isinstance(document, list):
        raise _NoSuchPlace
    return _edited_list(list(document), parts, how, value)


def _edited_list(items: list[Any], parts: list[str], how: str, value: Any) -> list[Any]:
    key = parts[0]
    if len(parts) > 1:
        index = _index(key, len(items))
        items[index] = _edited(items[index], parts[1:], how, value)
    elif how == "add":
        items.insert(len(items) if key == "-" else _index(key, len(items) + 1), value)
    elif how == "remove":
        del items[_index(key, len(items))]
    else:
        items[_index(key, len(items))] = value
    return items


def _pointer(item: dict[str, Any], name: str = "path") -> list[str]:
    if name not in item:
        raise _NoSuchPlace
    return _parts(item[name])


def _add(document: Any, item: dict[str, Any]) -> Any:
    return _edited(document, _pointer(item), "add", item.get("value"))


def _remove(document: Any, item: dict[str, Any]) -> Any:
    return _edited(document, _pointer(item), "remove")


def _replace(document: Any, item: dict[str, Any]) -> Any:
    if item.get("path") == "":
        return item.get("value")
    return _edited(document, _pointer(item), "replace", item.get("value"))


def _move(document: Any, item: dict[str, Any]) -> Any:
    source = _pointer(item, "from")
    moved = _get(document, source)
    return _edited(_edited(document, source, "remove"), _pointer(item), "add", moved)


def _copy(document: Any, item: dict[str, Any]) -> Any:
    source = _pointer(item, "from")
    if not source:
        raise _NoSuchPlace
    return _edited(document, _pointer(item), "add", deepcopy(_get_or_null(document, source)))


def _test(document: Any, item: dict[str, Any]) -> Any:
    if not same(_get_or_null(document, _pointer(item)), item.get("value")):
        raise _NoSuchPlace
    return document


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values: `1` and `true` differ."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(item, right[key]) for key, item in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


_OPERATIONS = {"add": _add, "remove": _remove, "replace": _replace, "move": _move, "copy": _copy, "test": _test}
