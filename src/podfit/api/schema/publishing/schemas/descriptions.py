"""Short descriptions of types and fields for `kubectl explain`, from `tables/descriptions.txt`.

A line is `Type: words` or `Type.field: words`. Fields that mean the same everywhere are under the type `*`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def _words() -> dict[str, str]:
    text = Path(__file__).parents[2].joinpath("tables", "descriptions.txt").read_text()
    rows = (line.partition(":") for line in text.splitlines() if line and not line.startswith("#"))
    return {name.strip(): words.strip() for name, _, words in rows}


def describe(type_name: str, field: str = "") -> str:
    """The description, if there is one."""
    words = _words()
    if not field:
        return words.get(type_name, "")
    return words.get(f"{type_name}.{field}") or words.get(f"*.{field}", "")
