"""What the node reports about a container near its memory limit. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from podfit.api.objects import Object
from podfit.api.pods.reflex import CALM, CONDITION, LEAK, NEAR, NOT_RAISED, Near

RAISES_OF_A_LEAK = 2
"""A container that reaches its limit repeatedly, and whose limit is then no longer raised, may leak."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One container under one limit."""

    name: str
    id: str
    limit: int
    raises: int = 0
    """How often its limit was raised since it first came near one."""

    def next(self, id: str, limit: int, was_near: bool) -> Watched:
        """The same container under another limit, or its successor."""
        if id != self.id:
            return Watched(self.name, id, limit)
        raised = limit > self.limit and was_near
        return Watched(self.name, id, limit, self.raises + 1 if raised else self.raises)


def near(one: Watched, used: int, now: str) -> Object:
    return _condition(True, NEAR, Near(one.name, used, one.limit).words, now)


def stuck(one: Watched, used: int, now: str) -> Object:
    """The limit was not raised."""
    words = Near(one.name, used, one.limit).words
    if one.raises >= RAISES_OF_A_LEAK:
        return _condition(True, LEAK, f"{words} after {one.raises} raises, and is not raised further: leak?", now)
    return _condition(True, NOT_RAISED, f"{words}, and its limit is not raised", now)


def calm(one: Watched, now: str) -> Object:
    return _condition(False, CALM, f"container {one.name} is below {one.limit} bytes by more than a tenth", now)


def _condition(status: bool, reason: str, message: str, now: str) -> Object:
    return {
        "type": CONDITION,
        "status": "True" if status else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
    }
