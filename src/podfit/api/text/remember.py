"""Results remembered by the text they were made of.

Texts come from clients: a table that is bounded in entries only would hold as many megabytes as clients care to send.
Long texts are worked out each time. A hit is a lookup in a dict, without a Python frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
LONGEST = 512
"""Characters of a text that is remembered."""


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
    """For functions of one text whose result depends on nothing else and is not changed."""

    def table(work_out: Callable[[str], Result]) -> Callable[[str], Result]:
        return _Table(work_out, most).__getitem__

    return table
