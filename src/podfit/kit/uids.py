"""Random UUIDs (version 4), drawn in batches: each draw is a system call, which costs more than the rest."""

from __future__ import annotations

import os
import uuid

_AT_ONCE = 64
_ready: list[str] = []
"""UUIDs in stock. They are independent random numbers, so one reveals nothing about the next."""

# A child process must not inherit the stock: both processes would issue the same UUIDs.
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
