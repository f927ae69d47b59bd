"""Computes the Retry-After of rejected requests, which grows while a level rejects many. Pure.

As in kube-apiserver 1.36: the delay of a level doubles if it rejected at least three requests for every second of the
delay, and falls by a second if it rejected fewer than one.
"""

from __future__ import annotations

from collections import deque

LONGEST_S = 32


class Retries:
    """The delay of one priority level."""

    def __init__(self) -> None:
        self.delay_s = 1
        self._raised = -LONGEST_S
        self._second = self._count = 0
        self._earlier: deque[tuple[int, int]] = deque()
        """Rejections of earlier seconds: (second, number)."""

    def reject(self, second: int) -> int:
        """Counts a rejection, and returns the delay for its client."""
        if second == self._second:
            self._count += 1
            return self.delay_s
        self._earlier.append((self._second, self._count))
        while second - self._earlier[0][0] > min(2 * self.delay_s, LONGEST_S) and len(self._earlier) > 1:
            self._earlier.popleft()
        self._second, self._count = second, 1
        self._adjust(second)
        return self.delay_s

    def _adjust(self, second: int) -> None:
        rejected = sum(count for at, count in self._earlier if second - at <= self.delay_s)
        if second - self._raised >= self.delay_s and rejected >= 3 * self.delay_s:
            self.delay_s, self._raised = min(2 * self.delay_s, LONGEST_S), second
        elif rejected < self.delay_s and self.delay_s > 1:
            self.delay_s -= 1
