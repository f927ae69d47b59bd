"""The verdict that a change has to wait."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wait:
    """Not now: the rule that applies, and a message with its numbers and with what would change the verdict."""

    reason: str
    message: str
