"""How often the interpreter looks for cyclic garbage: rarely. JSON has no cycles, and there is a lot of JSON."""

from __future__ import annotations

import gc

_FROM = 20_000
"""Objects made before a look. The usual 700 is reached several times a request."""


def look_rarely() -> None:
    gc.set_threshold(_FROM, 20, 20)


def keep_what_is_here() -> None:
    """Modules, tables and whatever else was made at the start stay to the end: no look goes through them again."""
    gc.collect()
    gc.freeze()
