"""The checks of `podfit doctor`. Each tests the real thing and reports its finding and the remedy."""

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
    """The remedy; only if there is something to do."""


def ok(name: str, found: str) -> Finding:
    return Finding(name, OK, found)


def warn(name: str, found: str, help: str) -> Finding:
    return Finding(name, WARN, found, help)


def fail(name: str, found: str, help: str) -> Finding:
    return Finding(name, FAIL, found, help)


def tried(name: str, check: Callable[[], Finding]) -> Finding:
    """Runs the check; an exception is reported as a finding, too."""
    try:
        return check()
    except OSError as error:
        return fail(name, f"cannot be checked: {system_words(error)}", "make it readable, or run as root")
