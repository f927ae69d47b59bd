"""The outcome of a phase: nothing, a request for another pass after a while (Requeue), or the end of the pass
(Stop)."""

from __future__ import annotations

from dataclasses import dataclass

from podfit.reconcile.result import DONE, Requeue, Result


@dataclass(frozen=True, slots=True)
class Stop:
    """Ends the pass with this result; requests of earlier phases are dropped."""

    result: Result = DONE


Outcome = Result | Stop


def requeue(after_s: float | None, reason: str) -> Result:
    """Requests another pass after these seconds; none for 0 or None."""
    return Requeue(after_s, reason) if after_s else DONE
