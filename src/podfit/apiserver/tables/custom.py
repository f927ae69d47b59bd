"""Builds rows of custom resources from the printer columns in their definition."""

from __future__ import annotations

import json
from typing import Any

from podfit.api.objects import Object
from podfit.apiserver.tables.columns import CREATED_TEXT, NAME, Column, Layout, age, name, since
from podfit.apiserver.tables.jsonpath import BadPath, find, parse


def custom_layout(columns: list[Object] | None) -> Layout:
    if not columns:
        return Layout((NAME, Column("Age", "date", CREATED_TEXT)), lambda obj: [name(obj), age(obj)])
    rows = [(row["jsonPath"], row.get("type", "string")) for row in columns]
    shown = tuple(_column(row) for row in columns)

    def cells(obj: Object) -> list[Any]:
        return [name(obj), *(_cell(obj, path, kind) for path, kind in rows)]

    return Layout((NAME, *shown), cells)


def _column(row: Object) -> Column:
    text = row.get("description") or f"Custom resource definition column (in JSONPath format): {row['jsonPath']}"
    return Column(row["name"], row.get("type", "string"), text, row.get("priority", 0), row.get("format", ""))


def _cell(obj: Object, path: str, kind: str) -> Any:
    try:
        parse(path)
    except BadPath:
        return None
    found = find(path, obj)
    if not found or found[0] is None:
        return None
    value = found[0]
    if kind == "integer":
        return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    if kind == "number":
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if kind == "date":
        return since(value) if isinstance(value, str) else None
    return _string(found)


def _string(found: list[Any]) -> str:
    return ",".join(value if isinstance(value, str) else json.dumps(value, separators=(",", ":")) for value in found)
