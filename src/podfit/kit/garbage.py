"""How often the interpreter looks for cyclic garbage: rarely. JSON has no cycles, and there is a lot of JSON."""

from __future__ import annotations

import gc

_FROM, _LATER, _LAST = 100_000, 5, 20
"""Objects made before a look, and looks before one goes further back. The usual 700 is reached several times a
request, and 20,000 whenever some dozens of requests are under way, only to find that nothing is garbage."""


def look_rarely() -> None:
    gc.set_threshold(_FROM, _LATER, _LAST)


def keep_what_is_here() -> None:
    """Modules, tables and whatever else was made at the start stay to the end: no look goes through them again."""
    gc.collect()
    gc.freeze()
