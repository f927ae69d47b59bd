"""A verdict of the updater: a change has to wait."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wait:
    """The change is not made now. It names the rule, and has a message with the numbers and with what would change the
    verdict."""

    reason: str
    message: str
