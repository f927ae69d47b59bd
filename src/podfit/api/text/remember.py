"""Results cached by their input text.

Texts come from clients: a cache that only bounds the number of entries would hold as many megabytes as clients send.
Results for long texts are computed each time. A hit is a lookup in a dict, without a Python frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
LONGEST = 512
"""The maximum length of a cached text."""


class _Table(dict[str, Result]):
    def __init__(self, work_out: Callable[[str], Result], most: int) -> None:
        super().__init__()
        self._work_out, self._most = work_out, most

    def __missing__(self, text: str) -> Result:
        result = self._work_out(text)
        if len(text) <= LONGEST:
            if len(self) >= self._most:
                self.clear()
            self[text] = result
        return result


def remembered(most: int) -> Callable[[Callable[[str], Result]], Callable[[str], Result]]:
    """A decorator for functions of one string whose result depends on nothing else and is never modified."""

    def table(work_out: Callable[[str], Result]) -> Callable[[str], Result]:
        return _Table(work_out, most).__getitem__

    return table
