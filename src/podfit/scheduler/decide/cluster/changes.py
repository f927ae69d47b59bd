"""A log of changed rows, so that values derived from all rows can be updated for the few that changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]


class Changes:
    def __init__(self, keep: int = 65536) -> None:
        self._rows: list[int] = []
        self._base = 0
        self._keep = keep

    @property
    def position(self) -> int:
        return self._base + len(self._rows)

    def add(self, row: int) -> None:
        rows = self._rows
        rows.append(row)
        if len(rows) > self._keep:
            half = len(rows) // 2
            del rows[:half]
            self._base += half

    def since(self, position: int) -> list[int] | None:
        """The rows changed after `position`, each once; None if the log no longer goes back that far."""
        start = position - self._base
        if start < 0:
            return None
        rows = self._rows
        count = len(rows) - start
        if count == 0:
            return []
        if count == 1:
            return [rows[-1]]
        return list(set(rows[start:]))
