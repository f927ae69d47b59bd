"""Assembles lists of records in slices, and keeps them in chunks, because copying a whole list would take longer than a
slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from podfit.api.registry.kinds import Kind
from podfit.apiserver.representation.encodings import Encoding
from podfit.apiserver.representation.forms import Form
from podfit.store.backend import Record

_PIECE = 128 * 1024
_KEPT_FROM = 500
_KEPT_LISTS = 4
_KEPT_BYTES = 128 << 20
Pieces = list[bytes]


def encode_items(form: Form, encoding: Encoding, rows: Sequence[Record], pieces: Pieces) -> Iterator[None]:
    """Appends the encoded items to `pieces`, some in each step."""
    waiting: list[bytes] = []
    size = 0
    for at in range(0, len(rows), encoding.step):
        for item in map(encoding.item, form.items(rows[at : at + encoding.step])):
            waiting.append(item)
            size += len(item)
        if size >= _PIECE:
            _join(pieces, waiting, encoding.between)
            waiting, size = [], 0
        yield
    if waiting:
        _join(pieces, waiting, encoding.between)


def _join(pieces: Pieces, items: list[bytes], between: bytes) -> None:
    joined = between.join(items)
    pieces.append(between + joined if pieces else joined)


class ListCache:
    """Caches the encoded items of recent large lists of all objects below a prefix, until one of the objects
    changes."""

    def __init__(self) -> None:
        self._known: dict[tuple[Kind, str, str], tuple[tuple[int, int], Pieces]] = {}
        self._bytes = 0

    def find(self, kind: Kind, prefix: str, media: str, rows: Sequence[Record]) -> Pieces | None:
        known = self._known.get((kind, prefix, media)) if len(rows) >= _KEPT_FROM else None
        return known[1] if known is not None and known[0] == _state(rows) else None

    def keep(self, kind: Kind, prefix: str, media: str, rows: Sequence[Record], pieces: Pieces) -> None:
        size = sum(map(len, pieces))
        if len(rows) < _KEPT_FROM or size > _KEPT_BYTES:
            return
        replaced = self._known.pop((kind, prefix, media), None)
        if replaced is not None:
            self._bytes -= sum(map(len, replaced[1]))
        if len(self._known) >= _KEPT_LISTS or self._bytes + size > _KEPT_BYTES:
            self._known.clear()
            self._bytes = 0
        self._known[kind, prefix, media] = (_state(rows), pieces)
        self._bytes += size


def _state(rows: Sequence[Record]) -> tuple[int, int]:
    """The newest revision and the count, which identify the state: every write raises the revision, every deletion
    lowers the count."""
    return len(rows), max(row.modified for row in rows)
