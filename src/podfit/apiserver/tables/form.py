"""The Table representation of one request: columns once, a row an object."""

from __future__ import annotations

from collections.abc import Sequence

from podfit.api.kinds import Kind
from podfit.api.status import Object, bad_request, go_quote
from podfit.apiserver import conversion, wire
from podfit.apiserver.tables.builtin import LAYOUTS
from podfit.apiserver.tables.columns import Layout, default_layout
from podfit.store.backend import Record


class Tables:
    """Layouts by kind: those of built-in kinds, and those of custom resources as definitions come and go."""

    def __init__(self) -> None:
        self._custom: dict[tuple[str, str, str], Layout] = {}
        self._default = default_layout()

    def set(self, kind: Kind, layout: Layout) -> None:
        self._custom[kind.group, kind.version, kind.plural] = layout

    def layout(self, kind: Kind) -> Layout:
        custom = self._custom.get((kind.group, kind.version, kind.plural))
        return custom or LAYOUTS.get((kind.group, kind.plural), self._default)


class TableForm:
    def __init__(self, tables: Tables, kind: Kind, version: str, include: str, now_s: float) -> None:
        if include not in ("", "None", "Metadata", "Object"):
            raise bad_request(
                "Unable to convert to Table as requested: includeObject: Invalid value: "
                f"{go_quote(include)}: must be 'Metadata', 'Object', 'None', or empty"
            )
        self._layout, self._kind, self._include, self._now_s = tables.layout(kind), kind, include, now_s
        self._api_version = f"meta.k8s.io/{version}"
        self._columns_sent = False

    def object(self, row: Record | Object) -> bytes:
        obj = self._obj(row)
        return wire.encode(
            self._table([self._row(obj)], {"resourceVersion": obj["metadata"].get("resourceVersion", "")})
        )

    def list(self, rows: Sequence[Record], revision: int, more: Object | None = None) -> bytes:
        made = [self._row(self._obj(row)) for row in rows]
        return wire.encode(self._table(made, {"resourceVersion": str(revision), **(more or {})}))

    def event(self, word: str, record: Record, revision: int) -> bytes:
        obj = self._obj(record)
        obj["metadata"]["resourceVersion"] = str(revision)
        table = self._table([self._row(obj)], {"resourceVersion": str(revision)})
        if self._columns_sent:
            table["columnDefinitions"] = None
        self._columns_sent = True
        return b'{"type":"%b","object":%b}\n' % (word.encode(), wire.encode(table))

    def bookmark(self, revision: int, annotations: Object | None = None) -> bytes:
        meta: Object = {"resourceVersion": str(revision)}
        partial = {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": dict(meta)}
        if annotations:
            partial["metadata"]["annotations"] = annotations  # type: ignore[index]
        row = {"cells": [None] * len(self._layout.columns), "object": partial}
        table = self._table([row], meta)
        if self._columns_sent:
            table["columnDefinitions"] = None
        self._columns_sent = True
        return wire.encode({"type": "BOOKMARK", "object": table}) + b"\n"

    def _obj(self, row: Record | Object) -> Object:
        return conversion.to_served(self._kind, wire.object_of(row)) if isinstance(row, Record) else row

    def _row(self, obj: Object) -> Object:
        row: Object = {"cells": self._layout.cells(obj, self._now_s)}
        if self._layout.conditions is not None and (conditions := self._layout.conditions(obj)):
            row["conditions"] = conditions
        if self._include == "None":
            row["object"] = None
        elif self._include == "Object":
            row["object"] = obj
        else:
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": self._api_version,
                "metadata": obj["metadata"],
            }
        return row

    def _table(self, rows: Sequence[Object], meta: Object) -> Object:
        return {
            "kind": "Table",
            "apiVersion": self._api_version,
            "metadata": meta,
            "columnDefinitions": [column.to_json() for column in self._layout.columns],
            "rows": rows if rows or self._layout.rows_when_empty else None,
        }
