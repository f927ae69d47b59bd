"""Limits the nesting depth of a body.

Functions that walk an object recurse, a few frames per level. Bodies are measured once, where they are parsed, so that
nothing after that exhausts the stack; `allow_depth` raises the recursion limit to what is accepted.
"""

from __future__ import annotations

import sys
from itertools import chain
from typing import Any

MAX_DEPTH = 1000
"""Nested containers. Go's decoders stop at 10,000, with an error message that is used here, too."""
_FRAMES = 20
"""Stack frames per level, in the worst of the functions that recurse."""


def allow_depth() -> None:
    """Call once in each process that reads objects."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), MAX_DEPTH * _FRAMES))


def too_deep(raw: bytes, value: Any) -> bool:
    """Whether the value parsed from the text is nested too deeply. A text with few brackets need not be measured."""
    if len(raw) <= 2 * MAX_DEPTH or raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH:
        return False
    return deeper_than(value, MAX_DEPTH)


def deeper_than(value: Any, most: int) -> bool:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(most):
        if not level:
            return False
        inner = chain.from_iterable(item.values() if isinstance(item, dict) else item for item in level)
        level = [item for item in inner if isinstance(item, (dict, list))]
    return bool(level)
