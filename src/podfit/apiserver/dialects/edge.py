"""Translates stored records to the dialect of their namespace, for reads by clients.

A translation is itself a record, so that every representation (JSON, tables, metadata, watch events) is made from it as
from a stored record. It is cached until the object changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.apiserver.dialects.base import Dialect
from podfit.apiserver.dialects.registry import Dialects
from podfit.apiserver.representation import wire
from podfit.apiserver.representation.forms import Form, Row, Spliced
from podfit.apiserver.storage.usable import converted
from podfit.store.backend import Record

_REMEMBERED = 4096


class Edge:
    """Translates the records of one kind."""

    def __init__(self, dialects: Dialects, kind: Kind, newer: bool = False) -> None:
        """`newer`: for clients that can only decode types of Kubernetes 1.27 or later."""
        self.dialects, self._kind, self._newer = dialects, kind, newer
        self._prefix = len(kind.storage_prefix)
        self._known: dict[str, tuple[int, Dialect, Record]] = {}

    @property
    def idle(self) -> bool:
        """Whether all objects are shown in their stored form."""
        return not self.dialects.active

    def record(self, record: Record) -> Record:
        dialect = self.dialects.of(record.key[self._prefix :].partition("/")[0])
        if dialect is None or not dialect.concerns(self._kind):
            return record
        known = self._known.get(record.key)
        if known is not None and known[0] == record.modified and known[1] is dialect:
            return known[2]
        made = self._translated(record, dialect)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[record.key] = (record.modified, dialect, made)
        return made

    def _translated(self, record: Record, dialect: Dialect) -> Record:
        obj = wire.object_of(record)
        shown = self._show(obj, dialect)
        return record if shown is obj else Record(record.key, wire.stored_value(shown), record.created, record.modified)

    def _show(self, obj: Object, dialect: Dialect) -> Object:
        show = dialect.show_newer if self._newer else dialect.show
        return converted(self._kind, obj, lambda native: show(self._kind, native))

    def row(self, row: Row) -> Row:
        if isinstance(row, Record):
            return self.record(row)
        dialect = self.dialects.of(row["metadata"].get("namespace", ""))
        return row if dialect is None or not dialect.concerns(self._kind) else self._show(row, dialect)


class DialectSpliced(Spliced):
    """JSON, spliced from stored bytes if these are in the right form."""

    def __init__(self, splicer: wire.Splicer, edge: Edge) -> None:
        super().__init__(splicer)
        self._edge = edge

    @property
    def as_stored(self) -> bool:
        return self._edge.idle

    @property
    def keeps(self) -> bool:
        return self._edge.idle

    def object(self, row: Row) -> bytes:
        return super().object(row if self._edge.idle else self._edge.row(row))

    def items(self, rows: Sequence[Record]) -> list[bytes]:
        return super().items(rows if self._edge.idle else [self._edge.record(row) for row in rows])

    def event(self, word: str, record: Record, revision: int) -> bytes:
        return super().event(word, record if self._edge.idle else self._edge.record(record), revision)


class DialectForm:
    """Any other representation, made from translated records."""

    def __init__(self, form: Form, edge: Edge) -> None:
        self._form, self._edge = form, edge

    def object(self, row: Row) -> bytes:
        return self._form.object(self._edge.row(row))

    def items(self, rows: Sequence[Record]) -> list[bytes]:
        return self._form.items(rows if self._edge.idle else [self._edge.record(row) for row in rows])

    def frame(self, revision: int, more: Object | None, empty: bool) -> tuple[bytes, bytes]:
        return self._form.frame(revision, more, empty)

    def event(self, word: str, record: Record, revision: int) -> bytes:
        return self._form.event(word, self._edge.record(record), revision)

    def bookmark(self, revision: int, annotations: Object | None = None) -> bytes:
        return self._form.bookmark(revision, annotations)
