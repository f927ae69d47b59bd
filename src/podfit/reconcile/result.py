"""What a reconcile says when it ends: done, or again after so long for that reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing more to do until something changes."""


@dataclass(frozen=True, slots=True)
class Again:
    """Look once more after `after_s`, because of `reason`."""

    after_s: float
    reason: str


Result = Done | Again
DONE = Done()
