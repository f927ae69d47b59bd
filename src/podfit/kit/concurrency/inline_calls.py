"""Decides whether a short blocking call runs on the event loop or in a thread.

A write that the disk confirms within a fraction of a millisecond costs less than the round trip to a thread, which on a
busy loop includes waiting for the interpreter lock. On a slow disk it is the other way round, and the loop must not be
blocked. So calls run in place while they are fast; a slow call moves the following ones to a thread.
"""

from __future__ import annotations


class InlineCalls:
    def __init__(self, limit_s: float = 0.004, rest: int = 16) -> None:
        """A call longer than `limit_s` counts as slow; the next `rest` calls then run in a thread before the loop is
        tried again.
        """
        self._limit_s, self._rest = limit_s, rest
        self._elsewhere = 0

    def in_place(self) -> bool:
        """Whether to run the next call in place. Must be called exactly once before each call."""
        if self._elsewhere:
            self._elsewhere -= 1
            return False
        return True

    def took(self, seconds: float) -> None:
        """Records the duration of a call that ran in place."""
        if seconds > self._limit_s:
            self._elsewhere = self._rest
