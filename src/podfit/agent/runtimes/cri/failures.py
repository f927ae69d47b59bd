"""What a runtime's refusals mean to the agent."""

from __future__ import annotations

from podfit.cri import CriError

from ..base import NotFound, RuntimeFailure


class Unreached(RuntimeFailure):
    """The runtime is away or did not answer in time. What was asked may have been done."""


def failure(error: CriError) -> RuntimeFailure:
    if error.unreached:
        return Unreached(f"container runtime is down: {error.words}")
    return NotFound(error.details) if error.code == "NOT_FOUND" else RuntimeFailure(error.words)
