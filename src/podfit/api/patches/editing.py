"""Edits a JSON document by pointers, at a cost that grows with the edits and not with the document.

Containers are copied when they are first modified, and long lists are split into chunks while elements are inserted or
removed, so that thousands of insertions into a list of millions do not move it each time. Used by `json_patch`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import msgspec

_PIECE = 1024
_INDEX = re.compile(r"[-+]?[0-9]{1,4000}")
_LONGEST = 19
"""Digits of the largest 64-bit number."""


class NoSuchPath(Exception):
    """A pointer has no target, or the operation is not possible there."""


class ChunkedList:
    """A long list during editing: the same elements in chunks of moderate length."""

    def __init__(self, items: list[Any]) -> None:
        self._pieces = [items[at : at + _PIECE] for at in range(0, len(items), _PIECE)]
        self._count()

    def _count(self) -> None:
        self._ends = list(accumulate(map(len, self._pieces)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Any]:
        for piece in self._pieces:
            yield from piece

    def _find(self, index: int) -> tuple[int, int]:
        at = bisect_right(self._ends, index)
        return at, index - (self._ends[at - 1] if at else 0)

    def __getitem__(self, index: int) -> Any:
        at, offset = self._find(index)
        return self._pieces[at][offset]

    def __setitem__(self, index: int, value: Any) -> None:
        at, offset = self._find(index)
        self._pieces[at][offset] = value

    def __delitem__(self, index: int) -> None:
        at, offset = self._find(index)
        del self._pieces[at][offset]
        if not self._pieces[at]:
            del self._pieces[at]
        self._count()

    def insert(self, index: int, value: Any) -> None:
        if not self._pieces:
            self._pieces.append([])
        at, offset = self._find(index) if index < len(self) else (len(self._pieces) - 1, len(self._pieces[-1]))
        piece = self._pieces[at]
        piece.insert(offset, value)
        if len(piece) > 2 * _PIECE:
            self._pieces[at : at + 1] = [piece[:_PIECE], piece[_PIECE:]]
        self._count()


class Document:
    """`root` is never modified. Inserted values belong to the caller and are not modified either."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._own: dict[int, Any] = {}
        """Containers created here, by identity: these may be modified in place."""

    def finished(self) -> Any:
        """The document as plain JSON. No edits are allowed afterwards."""
        for container in list(self._own.values()):
            if isinstance(container, dict):
                for key, item in container.items():
                    if item.__class__ is ChunkedList:
                        container[key] = _joined(item)
            elif isinstance(container, list):
                container[:] = _joined(container)
        return _joined(self._root) if self._root.__class__ is ChunkedList else self._root

    def replace_all(self, value: Any) -> None:
        self._root = value

    def get(self, parts: list[str]) -> Any:
        at = self._root
        for part in parts:
            at = _step(at, part)
        return at

    def get_or_null(self, parts: list[str]) -> Any:
        """Like `get`, but a missing member of an object counts as null."""
        above = self.get(parts[:-1])
        if parts and isinstance(above, dict):
            return above.get(parts[-1])
        return _step(above, parts[-1]) if parts else above

    def add(self, parts: list[str], value: Any) -> None:
        container, key = self._container(parts, resize=True), parts[-1]
        if isinstance(container, dict):
            container[key] = value
        else:
            container.insert(len(container) if key == "-" else index_of(key, len(container) + 1), value)

    def replace(self, parts: list[str], value: Any) -> None:
        """Replaces the value at a path; a missing member of an object is added."""
        container, key = self._container(parts), parts[-1]
        if isinstance(container, dict):
            container[key] = value
        else:
            container[index_of(key, len(container))] = value

    def remove(self, parts: list[str]) -> Any:
        """Removes and returns the value."""
        container, key = self._container(parts, resize=True), parts[-1]
        removed = _step(container, key)
        del container[key if isinstance(container, dict) else index_of(key, len(container))]
        return removed

    def _container(self, parts: list[str], resize: bool = False) -> Any:
        """The container at a path, made writable, and all above it."""
        if not parts:
            raise NoSuchPath
        above: Any = None
        place: Any = None
        at = self._root
        for level, part in enumerate(parts):
            changeable = self._changeable(at, resize and level == len(parts) - 1)
            if changeable is not at:
                if above is None:
                    self._root = changeable
                else:
                    above[place] = changeable
            if level == len(parts) - 1:
                return changeable
            above, place = changeable, part if isinstance(changeable, dict) else index_of(part, len(changeable))
            at = _step(changeable, part)
        return None

    def _changeable(self, container: Any, resize: bool) -> Any:
        if isinstance(container, list) and resize and len(container) > 2 * _PIECE:
            return self._owned(ChunkedList(container))
        if id(container) in self._own:
            return container
        if isinstance(container, dict):
            return self._owned(dict(container))
        if isinstance(container, list):
            return self._owned(list(container))
        raise NoSuchPath

    def _owned(self, container: Any) -> Any:
        self._own[id(container)] = container
        return container


def _joined(items: list[Any] | ChunkedList) -> list[Any]:
    return [_joined(item) if item.__class__ is ChunkedList else item for item in items]


def _step(container: Any, part: str) -> Any:
    if isinstance(container, dict):
        if part not in container:
            raise NoSuchPath
        return container[part]
    if isinstance(container, (list, ChunkedList)):
        return container[index_of(part, len(container))]
    raise NoSuchPath


def index_of(text: str, size: int) -> int:
    """A position in a list of `size`; negative ones count from the end."""
    if _INDEX.fullmatch(text) is None or len(text.lstrip("+-0")) > _LONGEST:
        raise NoSuchPath
    index = int(text)
    if not -size <= index < size:
        raise NoSuchPath
    return index + size if index < 0 else index


def copied(value: Any) -> Any:
    """A copy that shares no container with the value."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, (list, ChunkedList)):
        return [copied(item) for item in value]
    return value


def size_of(value: Any) -> int:
    """The encoded size of the value in bytes."""
    return len(msgspec.json.encode(value, enc_hook=_encodable))


def _encodable(value: Any) -> Any:
    return float(value) if isinstance(value, float) else list(value)
