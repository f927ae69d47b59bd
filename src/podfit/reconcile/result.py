"""The result of a reconcile: done, or requeue after a delay with a reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Done:
    """There is nothing more to do until the object changes."""


@dataclass(frozen=True, slots=True)
class Requeue:
    """Reconcile again after `after_s`, because of `reason`."""

    after_s: float
    reason: str


Result = Done | Requeue
DONE = Done()


def earliest(one: Result, other: Result) -> Result:
    """The requeue that is due first, if there is one."""
    if isinstance(other, Done):
        return one
    return other if isinstance(one, Done) or other.after_s < one.after_s else one
