"""Encodes rows of a Table. The row of an object is encoded once for each of its states. Only the cells that show an
age, and the metadata (which is copied from the stored bytes), are filled in for each response.
"""

from __future__ import annotations

from typing import NamedTuple

from podfit.api.objects import Object
from podfit.apiserver.representation import wire
from podfit.apiserver.tables.columns import Elapsed, Layout
from podfit.store.backend import Record

_KEPT_ROWS = 16_384
_KEPT_BYTES = 8 << 20


class Row(NamedTuple):
    modified: int
    pieces: tuple[bytes | Elapsed, ...]
    """The encoded row, from the opening brace up to the value of `object`."""
    metadata: tuple[int, int]
    """The position of the object's metadata in the stored bytes, without its opening brace."""


def encode_cells(layout: Layout, obj: Object) -> tuple[bytes | Elapsed, ...]:
    pieces: list[bytes | Elapsed] = []
    text = b'{"cells":['
    for at, cell in enumerate(layout.cells(obj)):
        if at:
            text += b","
        if isinstance(cell, Elapsed):
            pieces += (text, cell)
            text = b""
        else:
            text += wire.encode(cell)
    text += b"]"
    if layout.conditions is not None and (conditions := layout.conditions(obj)):
        text += b',"conditions":' + wire.encode(conditions)
    pieces.append(text + b',"object":')
    return tuple(pieces)


def shown(pieces: tuple[bytes | Elapsed, ...], now_s: float) -> bytes:
    return b"".join(
        [piece if isinstance(piece, bytes) else wire.encode(piece.text(now_s)) for piece in pieces],
    )


class Rows:
    """A cache of the encoded rows of one kind, by key, bounded in number and in bytes. Other rows are encoded each
    time."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._known: dict[str, Row] = {}
        self._bytes = self._passed_over = 0

    def row(self, record: Record) -> Row:
        known = self._known.get(record.key)
        if known is not None and known.modified == record.modified:
            return known
        pieces = encode_cells(self._layout, self._layout.decode(record.value))
        made = Row(record.modified, pieces, wire.metadata_bounds(record.value))
        self._keep(record.key, made, known)
        return made

    def _keep(self, key: str, made: Row, known: Row | None) -> None:
        size = _size(made) - (0 if known is None else _size(known))
        if self._bytes + size > _KEPT_BYTES or (known is None and len(self._known) >= _KEPT_ROWS):
            # Rows of deleted objects remain in the cache, which is cleared after enough misses.
            self._passed_over += 1
            if self._passed_over < _KEPT_ROWS:
                return
            self._known.clear()
            self._bytes = self._passed_over = 0
            size = _size(made)
        self._known[key] = made
        self._bytes += size


def _size(row: Row) -> int:
    return sum(len(piece) for piece in row.pieces if isinstance(piece, bytes))
