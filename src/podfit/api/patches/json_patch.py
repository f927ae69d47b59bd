"""JSON patch (RFC 6902) with the semantics of the API server: `apply(document, raw)`.

Any operation that does not apply is answered with the same 422. The number of operations and the bytes they copy are
limited as in Kubernetes.
"""

from __future__ import annotations

from typing import Any

from podfit.api.patches.editing import ChunkedList, Document, NoSuchPath, copied, size_of
from podfit.api.schema.decoding.scalars import json_word
from podfit.api.status import ApiError, bad_request
from podfit.api.text.depth import MAX_DEPTH, deeper_than
from podfit.api.text.gojson import GoSyntaxError, may_hold_duplicates, parse, parse_exact

MOST_OPERATIONS = 10_000
MOST_COPIED = 3 << 20
"""The most bytes that the copy operations of one patch may add."""
_OP_FIELDS = ("op", "from", "path", "value")


def apply(document: Any, raw: bytes) -> Any:
    """The patched document; raises ApiError 400 for an invalid JSON patch, 413 for one that is too long, 422 for one
    that does not apply.
    """
    return apply_operations(document, operations(raw))


def apply_loosely(document: Any, raw: bytes) -> Any:
    """Like `apply`, without checking unknown fields. Kubernetes then parses the operations once instead of twice, and
    an invalid patch is reported in the wording of the second parser."""
    try:
        value = parse(raw)
    except GoSyntaxError as error:
        raise bad_request(str(error)) from None
    if value is not None and not isinstance(value, list):
        raise bad_request(f"json: cannot unmarshal {json_word(value)} into Go value of type jsonpatch.Patch")
    for index, item in enumerate(value or ()):
        if item is not None and not isinstance(item, dict):
            where = f"Patch.{index} of type jsonpatch.Operation"
            raise bad_request(f"json: cannot unmarshal {json_word(item)} into {where}")
        if any(not isinstance((item or {}).get(name, ""), str) for name in ("op", "from", "path")):
            raise rejected()
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
    for item in value:
        _check_type(item)
    if len(value) > MOST_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(value)}"
        raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")
    if any(item is None or None in (item.get(name, "") for name in ("op", "from", "path")) for item in value):
        raise rejected()
    return value


def _check_type(item: Any) -> None:
    if item is None:
        return
    problem = "json: cannot unmarshal {} into Go {} of type {}"
    if not isinstance(item, dict):
        raise bad_request("error decoding patch: " + problem.format(json_word(item), "value", "handlers.jsonPatchOp"))
    for name in ("op", "from", "path"):
        given = item.get(name)
        if given is not None and not isinstance(given, str):
            where = f"struct field jsonPatchOp.{name}"
            raise bad_request("error decoding patch: " + problem.format(json_word(given), where, "string"))


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
    """The patched document; `document` is not modified. 422 if an operation does not apply, or the result is nested too
    deeply."""
    editing = _Editing(document)
    try:
        for item in patch:
            editing.run(item)
        result = editing.document.finished()
    except (NoSuchPath, RecursionError):
        raise rejected() from None
    if any(map(_may_deepen, patch)) and deeper_than(result, MAX_DEPTH):
        raise rejected()
    return result


def _may_deepen(item: dict[str, Any]) -> bool:
    """Whether an operation may nest containers too deeply. The depth of the added value is at most the length of its
    path.
    """
    return item["op"] in ("copy", "move") or deeper_than(item.get("value"), MAX_DEPTH - item["path"].count("/"))


class _Editing:
    """The application of one patch."""

    def __init__(self, document: Any) -> None:
        self.document = Document(document)
        self._copied = 0
        """Bytes added by copies so far."""

    def run(self, item: dict[str, Any]) -> None:
        operation = _OPERATIONS.get(item.get("op", ""))
        if operation is None:
            raise NoSuchPath
        operation(self, item)

    def add(self, item: dict[str, Any]) -> None:
        self.document.add(_pointer(item), item.get("value"))

    def remove(self, item: dict[str, Any]) -> None:
        self.document.remove(_pointer(item))

    def replace(self, item: dict[str, Any]) -> None:
        if item.get("path") == "":
            self.document.replace_all(item.get("value"))
        else:
            self.document.replace(_pointer(item), item.get("value"))

    def move(self, item: dict[str, Any]) -> None:
        moved = self.document.remove(_pointer(item, "from"))
        self.document.add(_pointer(item), moved)

    def copy(self, item: dict[str, Any]) -> None:
        source = _pointer(item, "from")
        if not source:
            raise NoSuchPath
        value = self.document.get_or_null(source)
        self._copied += size_of(value)
        if self._copied > MOST_COPIED:
            raise NoSuchPath
        self.document.add(_pointer(item), copied(value))

    def test(self, item: dict[str, Any]) -> None:
        if not same(self.document.get_or_null(_pointer(item)), item.get("value")):
            raise NoSuchPath


_OPERATIONS = {
    "add": _Editing.add,
    "remove": _Editing.remove,
    "replace": _Editing.replace,
    "move": _Editing.move,
    "copy": _Editing.copy,
    "test": _Editing.test,
}


def _pointer(item: dict[str, Any], name: str = "path") -> list[str]:
    """The keys of a pointer. Text before the first slash is ignored."""
    if name not in item:
        raise NoSuchPath
    return [part.replace("~1", "/").replace("~0", "~") for part in item[name].split("/")[1:]]


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values: `1` and `true` differ."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(item, right[key]) for key, item in left.items())
    if isinstance(left, (list, ChunkedList)) and isinstance(right, (list, ChunkedList)):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)
