"""The Table representation of one request: columns once, one row per object."""

from __future__ import annotations

from collections.abc import Sequence

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.status import bad_request, go_quote
from podfit.apiserver.apis import conversion
from podfit.apiserver.representation import wire
from podfit.apiserver.representation.hidden import hides, shown_metadata
from podfit.apiserver.tables.columns import Layout, default_layout
from podfit.apiserver.tables.kinds.builtin import LAYOUTS
from podfit.apiserver.tables.rows import Rows, encode_cells, shown
from podfit.store.backend import Record

_Name = tuple[str, str, str]


class Tables:
    """Layouts by kind: those of built-in kinds, and those of custom resources while their definitions exist."""

    def __init__(self) -> None:
        self._custom: dict[_Name, Layout] = {}
        self._default = default_layout()
        self._rows: dict[_Name, Rows] = {}

    def set(self, kind: Kind, layout: Layout) -> None:
        self._custom[_name(kind)] = layout
        self._rows.pop(_name(kind), None)

    def layout(self, kind: Kind) -> Layout:
        return self._custom.get(_name(kind)) or LAYOUTS.get((kind.group, kind.plural), self._default)

    def rows(self, kind: Kind) -> Rows:
        found = self._rows.get(_name(kind))
        if found is None:
            found = self._rows[_name(kind)] = Rows(self.layout(kind))
        return found


def _name(kind: Kind) -> _Name:
    return kind.group, kind.version, kind.plural


class TableForm:
    def __init__(self, tables: Tables, kind: Kind, version: str, include: str, now_s: float) -> None:
        if include not in ("", "None", "Metadata", "Object"):
            raise bad_request(
                "Unable to convert to Table as requested: includeObject: Invalid value: "
                f"{go_quote(include)}: must be 'Metadata', 'Object', 'None', or empty"
            )
        self._layout, self._kind, self._include, self._now_s = tables.layout(kind), kind, include, now_s
        self._rows = tables.rows(kind)
        self._api_version = f"meta.k8s.io/{version}"
        self._partial = b'{"kind":"PartialObjectMetadata","apiVersion":%b,"metadata":' % wire.encode(self._api_version)
        # A conversion may change the values of cells and metadata.
        self._hides = hides(kind)
        self._as_stored = include in ("", "Metadata", "None") and not conversion.needed(kind) and not self._hides
        self._columns_sent = False

    def object(self, row: Record | Object) -> bytes:
        obj = self._obj(row)
        return self._table(self._row(obj), {"resourceVersion": obj["metadata"].get("resourceVersion", "")})

    def items(self, rows: Sequence[Record]) -> list[bytes]:
        if not self._as_stored:
            return [self._row(self._obj(row)) for row in rows]
        bare, now_s, partial, row_of = self._include == "None", self._now_s, self._partial, self._rows.row
        items = []
        for record in rows:
            _, pieces, (start, end) = row_of(record)
            head = shown(pieces, now_s)
            items.append(
                b"%bnull}" % head
                if bare
                else b'%b%b{"resourceVersion":"%d",%b}}' % (head, partial, record.modified, record.value[start:end])
            )
        return items

    def frame(self, revision: int, more: Object | None, empty: bool) -> tuple[bytes, bytes]:
        head = self._head({"resourceVersion": str(revision), **(more or {})})
        if empty and not self._layout.rows_when_empty:
            return b"%bnull}" % head, b""
        return b"%b[" % head, b"]}"

    def event(self, word: str, record: Record, revision: int) -> bytes:
        obj = self._obj(record)
        obj["metadata"]["resourceVersion"] = str(revision)
        table = self._table(self._row(obj), {"resourceVersion": str(revision)})
        return b'{"type":"%b","object":%b}\n' % (word.encode(), table)

    def bookmark(self, revision: int, annotations: Object | None = None) -> bytes:
        meta: Object = {"resourceVersion": str(revision)}
        partial = {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": dict(meta)}
        if annotations:
            partial["metadata"]["annotations"] = annotations  # type: ignore[index]
        row = wire.encode({"cells": [None] * len(self._layout.columns), "object": partial})
        return b'{"type":"BOOKMARK","object":%b}\n' % self._table(row, meta)

    def _obj(self, row: Record | Object) -> Object:
        return conversion.to_served(self._kind, wire.object_of(row)) if isinstance(row, Record) else row

    def _row(self, obj: Object) -> bytes:
        head = shown(encode_cells(self._layout, obj), self._now_s)
        if self._include == "None":
            return b"%bnull}" % head
        if self._include == "Object":
            return b"%b%b}" % (head, wire.encode(obj))
        metadata = shown_metadata(obj["metadata"]) if self._hides else obj["metadata"]
        return b"%b%b%b}}" % (head, self._partial, wire.encode(metadata))

    def _table(self, row: bytes, meta: Object) -> bytes:
        return b"%b[%b]}" % (self._head(meta), row)

    def _head(self, meta: Object) -> bytes:
        """The start of a Table, up to the value of `rows`. In a watch only the first event has columns."""
        columns = None if self._columns_sent else [column.to_json() for column in self._layout.columns]
        self._columns_sent = True
        table = {
            "kind": "Table",
            "apiVersion": self._api_version,
            "metadata": meta,
            "columnDefinitions": columns,
        }
        return wire.encode(table)[:-1] + b',"rows":'
