"""The values that OpenAPI documents list for named strings, from `tables/enums.txt`.

A line is `Type: value | value`, with the name of the Go type. `kubectl explain` shows the values.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def _values() -> dict[str, list[str]]:
    text = Path(__file__).parents[2].joinpath("tables", "enums.txt").read_text()
    rows = (line.partition(": ") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: values.split(" | ") for name, _, values in rows}


def values_of(go: str) -> list[str]:
    """The values of a Go type such as `v1.PullPolicy`; empty if any value is allowed."""
    return _values().get(go.rpartition(".")[2], [])
