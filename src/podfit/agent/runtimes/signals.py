"""The signals that stop containers, by their names in images and pods."""

from __future__ import annotations

import re
import signal

_NAME = re.compile(r"(SIG)?(?P<name>[A-Z0-9]+?)((?P<sign>[+-])(?P<offset>[0-9]+))?")


def stop_signal(text: str) -> int:
    """The signal of this name, such as `SIGQUIT`, `QUIT`, `3`, `SIGRTMIN+3` or `SIGRTMAX-2`; SIGTERM for any other
    text."""
    found = _NAME.fullmatch(text.strip().upper())
    if found is None:
        return signal.SIGTERM
    name, offset = found["name"], int(found["offset"] or 0)
    try:
        base = int(name) if name.isdecimal() else signal.Signals[f"SIG{name}"].value
    except (KeyError, ValueError):
        return signal.SIGTERM
    number = base - offset if found["sign"] == "-" else base + offset
    return number if 0 < number < signal.NSIG else signal.SIGTERM
