"""The checks of `podfit doctor`. Each tries the real thing and reports what it found and what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from podfit.kit.process.oserrors import system_words

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True)
class Finding:
    name: str
    level: str
    found: str
    help: str = ""
    """What to do; only where something is to be done."""


def ok(name: str, found: str) -> Finding:
    return Finding(name, OK, found)


def warn(name: str, found: str, help: str) -> Finding:
    return Finding(name, WARN, found, help)


def fail(name: str, found: str, help: str) -> Finding:
    return Finding(name, FAIL, found, help)


def tried(name: str, check: Callable[[], Finding]) -> Finding:
    """What the check finds; a check that fails itself is a finding, too."""
    try:
        return check()
    except OSError as error:
        return fail(name, f"cannot be checked: {system_words(error)}", "make it readable, or run as root")
