"""Counts the error lines in logs of Kubernetes' programs, ignoring the parts that differ from line to line. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

_PROBLEM = re.compile(r"^[EF]\d{4} ")
_HEAD = re.compile(r"^[EF]\d{4} \S+\s+\d+ ")
_VARYING = re.compile(r"[0-9a-f]{8,}|\d+")


def problems(lines: Iterable[str]) -> Counter[str]:
    """How often each error line was written, ignoring numbers and identifiers."""
    return Counter(_VARYING.sub("#", _HEAD.sub("", line)).strip() for line in lines if _PROBLEM.match(line))


def repeated(lines: Iterable[str], most: int) -> dict[str, int]:
    """The errors written more often than `most` times, which do not end by themselves."""
    return {line: count for line, count in problems(lines).items() if count > most}
