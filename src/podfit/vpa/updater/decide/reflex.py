"""Computes the new memory size of a container near its limit: within bounds, in smaller steps if it grows slowly. Pure.

The first step adds 50 %. A container that is near its new limit within seconds grows fast and is doubled. One that
takes longer gets 25 % more, which gives the recommender time. The bound stops both: a leak grows up to it and no
further.
"""

from __future__ import annotations

from dataclasses import dataclass

from podfit.api.pods.reflex import mebibytes

FIRST, FAST, SLOW = 1.5, 2.0, 1.25
FAST_WITHIN_S = 30.0
MOST_WITHOUT_BOUND = 4
"""If the autoscaler has no maxAllowed for memory, this multiple of the request at the first reflex is the bound."""
MI = 1 << 20


@dataclass(frozen=True, slots=True)
class EarlierReflexes:
    """The previous reflexes of a container."""

    count: int = 0
    at: float = 0.0
    """When the last reflex was sent."""
    first_request: int = 0


@dataclass(frozen=True, slots=True)
class Grow:
    request: int
    limit: int
    at_bound: bool
    """Whether no further reflex is possible."""


@dataclass(frozen=True, slots=True)
class Stay:
    why: str


def grown(request: int, limit: int, most: int | None, before: EarlierReflexes, now: float) -> Grow | Stay:
    """`most` is the largest request allowed; the limit keeps its ratio to the request."""
    bound = most if most is not None else MOST_WITHOUT_BOUND * (before.first_request or request)
    if request >= bound:
        return Stay(f"its request of {mebibytes(request)} is at the bound of {mebibytes(bound)}")
    factor = FIRST if not before.count else FAST if now - before.at <= FAST_WITHIN_S else SLOW
    wanted = min(bound, max(_whole(int(request * factor)), request + MI))
    raised = limit * wanted // request if limit != request else wanted
    return Grow(wanted, max(raised, wanted), wanted >= bound)


def _whole(count: int) -> int:
    """Rounds up to whole MiB."""
    return -(-count // MI) * MI
