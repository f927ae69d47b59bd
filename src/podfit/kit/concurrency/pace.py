"""Whether a short blocking call is better made on the event loop than handed to a thread.

A write that the disk confirms within a fraction of a millisecond costs less than the way to a thread and back, which
on a busy loop includes waiting for the interpreter lock. On a slow disk it is the other way round, and the loop must
not stand still. So calls are made in place while they are quick; one that was not sends the next ones to a thread.
"""

from __future__ import annotations


class Pace:
    def __init__(self, limit_s: float = 0.004, rest: int = 16) -> None:
        """A call longer than `limit_s` is a slow one; after it `rest` calls go elsewhere before it is tried again."""
        self._limit_s, self._rest = limit_s, rest
        self._elsewhere = 0

    def in_place(self) -> bool:
        """Asked once before each call: whether to make it right here."""
        if self._elsewhere:
            self._elsewhere -= 1
            return False
        return True

    def took(self, seconds: float) -> None:
        """How long a call made in place took."""
        if seconds > self._limit_s:
            self._elsewhere = self._rest
