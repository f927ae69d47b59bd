"""Random UUIDs (version 4), many drawn at a time: each draw is a call of the kernel, which costs more than all else."""

from __future__ import annotations

import os
import uuid

_AT_ONCE = 64
_ready: list[str] = []
"""Random texts in stock: one of them reveals nothing about the others."""

# Two processes must never give out the same ones.
os.register_at_fork(after_in_child=_ready.clear)


def new_uid() -> str:
    while True:
        try:
            return _ready.pop()
        except IndexError:
            drawn = os.urandom(16 * _AT_ONCE)
            _ready.extend(
                str(uuid.UUID(bytes=drawn[start : start + 16], version=4)) for start in range(0, len(drawn), 16)
            )
