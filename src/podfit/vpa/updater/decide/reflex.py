"""How much memory a container gets that is near its limit: more, within bounds, in smaller steps when it is slow. Pure.

The first step is half as much again. A container that is near its new limit within seconds grows fast and is doubled;
one that takes longer gets a quarter more, which leaves the recommender its time. The bound ends both: a leak climbs to
it and no further.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST, FAST, SLOW = 1.5, 2.0, 1.25
FAST_WITHIN_S = 30.0
MOST_WITHOUT_BOUND = 4
"""Where the autoscaler has no maxAllowed for memory, this many times the request at the first reflex is the bound."""
MI = 1 << 20


@dataclass(frozen=True, slots=True)
class Before:
    """The reflexes that a container has had."""

    count: int = 0
    at: float = 0.0
    """When the last one was sent."""
    first_request: int = 0


@dataclass(frozen=True, slots=True)
class Grow:
    request: int
    limit: int
    at_bound: bool
    """There is no more after this one."""


@dataclass(frozen=True, slots=True)
class Stay:
    why: str


def grown(request: int, limit: int, most: int | None, before: Before, now: float) -> Grow | Stay:
    """`most` is the largest request that is allowed; the limit keeps its proportion to the request."""
    bound = most if most is not None else MOST_WITHOUT_BOUND * (before.first_request or request)
    if request >= bound:
        return Stay(f"its request of {request} bytes is at the bound of {bound}")
    factor = FIRST if not before.count else FAST if now - before.at <= FAST_WITHIN_S else SLOW
    wanted = min(bound, max(_whole(int(request * factor)), request + MI))
    raised = limit * wanted // request if limit != request else wanted
    return Grow(wanted, max(raised, wanted), wanted >= bound)


def _whole(count: int) -> int:
    """Up to whole MiB."""
    return -(-count // MI) * MI
