"""The system's message for an error: `/data: No space left on device` instead of `[Errno 28] …`."""

from __future__ import annotations

import os


def system_words(error: BaseException) -> str:
    """The system's message; the text of an error that does not come from the system is returned unchanged."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    # Python's own text may name a library call, and Python's resolver uses error numbers of its own, below 0.
    why = os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)
    return f"{error.filename}: {why}" if error.filename is not None else why
