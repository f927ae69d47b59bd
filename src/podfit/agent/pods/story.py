"""A pod's story: its last transitions with time, cause and numbers, kept in memory for people to read."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from podfit.kit.clock import Clock, rfc3339_micro

KEPT = 100


class Chapter(Struct, frozen=True, gc=False):
    """Part of no cycle, and there are millions of them in a large fleet: nothing for the garbage collection to walk."""

    at: float
    what: str
    """A word for the transition: admitted, allocated, actuated, deferred, restarted …"""
    why: str
    numbers: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"time": rfc3339_micro(self.at), "what": self.what, "why": self.why}
        return {**told, "numbers": self.numbers} if self.numbers else told


class Story:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._chapters: list[Chapter] = []
        """Mostly a few; an empty deque would take more memory than they do."""

    def add(self, what: str, why: str = "", **numbers: Any) -> None:
        """What is tried again and again with the same end is told once, and leaves room for the rest."""
        if self._chapters:
            last = self._chapters[-1]
            if last.what == what and last.why == why and last.numbers == numbers:
                return
        self._chapters.append(Chapter(self._clock.now(), what, why, numbers))
        if len(self._chapters) > KEPT:
            del self._chapters[0]

    def __iter__(self) -> Any:
        return iter(list(self._chapters))

    def to_json(self) -> list[dict[str, Any]]:
        return [chapter.to_json() for chapter in self._chapters]
