"""Exponential backoff per key, with a cap and a reset after a quiet period."""

from __future__ import annotations

import random
from collections.abc import Hashable


class Backoff:
    def __init__(self, initial_s: float, maximum_s: float, factor: float = 2.0, jitter: float = 0.0) -> None:
        self.initial_s, self.maximum_s, self.factor, self.jitter = initial_s, maximum_s, factor, jitter
        self._tries: dict[Hashable, int] = {}

    def next(self, key: Hashable = None) -> float:
        """The delay before the next try of `key`; each call counts as one more failure."""
        tries = self._tries.get(key, 0)
        self._tries[key] = tries + 1
        delay = min(self.initial_s * self.factor ** min(tries, 64), self.maximum_s)
        return delay * (1 + random.random() * self.jitter)

    def tries(self, key: Hashable = None) -> int:
        return self._tries.get(key, 0)

    def forget(self, key: Hashable = None) -> None:
        self._tries.pop(key, None)
