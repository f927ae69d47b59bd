"""Composes the node's report about a container near its memory limit. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from podfit.api.objects import Object
from podfit.api.pods.reflex import CALM, CONDITION, LEAK, NEAR, NOT_RAISED, NearLimit, amounts, mebibytes

RAISES_OF_A_LEAK = 2
"""A container that reaches its limit repeatedly, and whose limit is then no longer raised, may leak."""


@dataclass(frozen=True, slots=True)
class WatchedContainer:
    """A container under one memory limit."""

    name: str
    id: str
    limit: int
    raises: int = 0
    """The number of times that its limit was raised since the container first came near one."""

    def next(self, id: str, limit: int, was_near: bool) -> WatchedContainer:
        """The same container under another limit, or its successor under that limit."""
        if id != self.id:
            return WatchedContainer(self.name, id, limit)
        raised = limit > self.limit and was_near
        return WatchedContainer(self.name, id, limit, self.raises + 1 if raised else self.raises)


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition of the pod, and the amounts that are published beside it for clients."""

    near: NearLimit | None
    reason: str
    message: str

    def change(self, now: str) -> Object:
        """The change of the pod that reports it."""
        condition = {
            "type": CONDITION,
            "status": "True" if self.near is not None else "False",
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": now,
        }
        return {"metadata": {"annotations": amounts(self.near)}, "status": {"conditions": [condition]}}


def near(watched: WatchedContainer, used: int) -> Finding:
    found = NearLimit(watched.name, used, watched.limit)
    return Finding(found, NEAR, found.words)


def stuck(watched: WatchedContainer, used: int) -> Finding:
    """The report for a container whose limit was not raised."""
    found = NearLimit(watched.name, used, watched.limit)
    if watched.raises >= RAISES_OF_A_LEAK:
        return Finding(found, LEAK, f"{found.words} after {watched.raises} raises, and is not raised further: leak?")
    return Finding(found, NOT_RAISED, f"{found.words}, and its limit is not raised")


def calm(watched: WatchedContainer) -> Finding:
    return Finding(None, CALM, f"container {watched.name} is below {mebibytes(watched.limit)} by more than a tenth")
