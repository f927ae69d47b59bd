"""Keeps a pod's story: its last transitions with time, cause and numbers, in memory, for `podfit describe pod`."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from podfit.kit.clock import Clock, rfc3339_micro

KEPT = 100


class StoryEntry(Struct, frozen=True, gc=False):
    """Never part of a reference cycle, and a large fleet has millions: the garbage collector need not track them."""

    at: float
    what: str
    """The transition: admitted, allocated, actuated, deferred, restarted …"""
    why: str
    numbers: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        written: dict[str, Any] = {"time": rfc3339_micro(self.at), "what": self.what, "why": self.why}
        return {**written, "numbers": self.numbers} if self.numbers else written


class Story:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._chapters: list[StoryEntry] = []
        """Mostly a few; an empty deque would take more memory than they do."""

    def add(self, what: str, why: str = "", **numbers: Any) -> None:
        """A repeated attempt with the same outcome is recorded once, so that it does not displace the rest."""
        if self._chapters:
            last = self._chapters[-1]
            if last.what == what and last.why == why and last.numbers == numbers:
                return
        self._chapters.append(StoryEntry(self._clock.now(), what, why, numbers))
        if len(self._chapters) > KEPT:
            del self._chapters[0]

    def __iter__(self) -> Any:
        return iter(list(self._chapters))

    def to_json(self) -> list[dict[str, Any]]:
        return [entry.to_json() for entry in self._chapters]
