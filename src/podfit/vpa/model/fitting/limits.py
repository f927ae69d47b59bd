"""Limits that keep their ratio to the request, and the requests at which a limit would reach a bound.

All arithmetic is on whole numbers (millicores, bytes) of any size. Results are rounded down and keep the format of the
quantity that they were scaled from.
"""

from __future__ import annotations

from collections.abc import Mapping

from podfit.api.quantity import Quantity
from podfit.vpa.model.objects.pods import ResourceList
from podfit.vpa.model.objects.policy import CPU, RESOURCES

MAX_INT64 = 2**63 - 1
Resources = Mapping[str, Quantity]


def scale(resource: str, amount: Quantity, base: Quantity, result: Quantity, up: bool = False) -> tuple[Quantity, bool]:
    """amount · result / base, and whether it had to be capped at 64 bits. CPU is in thousandths, memory in bytes."""
    if resource == CPU:
        # Thousandths of absurd amounts wrap around at 64 bits, as in upstream's arithmetic (seen in recorded limits).
        whole, rest = _divided(_int64(amount.milli) * _int64(result.milli), _int64(base.milli) or 1)
    else:
        whole, rest = _divided(amount.value * result.value, base.value)
    if up and rest:
        whole += 1
    cut = not -MAX_INT64 - 1 <= whole <= MAX_INT64
    whole = MAX_INT64 if cut else whole
    made = Quantity.of_milli(whole, amount.format) if resource == CPU else Quantity.of_units(whole, amount.format)
    return made, cut


def _divided(number: int, by: int) -> tuple[int, int]:
    """Euclidean division: the remainder is never negative, as in Go's math/big."""
    whole, rest = divmod(number, abs(by))
    return (whole if by > 0 else -whole), rest


def _int64(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def proportional_limit(
    resource: str,
    limit: Quantity | None,
    request: Quantity | None,
    recommended: Quantity | None,
    default: Quantity | None,
) -> tuple[Quantity | None, str]:
    """The limit for a recommended request, or None, and a note for the pod's annotation."""
    limit = limit or default
    if not limit:
        return None, f"{resource}: limit NOT set since originalLimit is nil or 0"
    if not recommended:
        return None, f"{resource}: limit NOT set since recommendedRequest is nil or 0"
    if not request or request.milli == limit.milli:
        return recommended, ""
    made, cut = scale(resource, limit, request, recommended)
    note = f"{resource}: failed to keep limit to request ratio; capping limit to int64" if cut else ""
    return made, note


def proportional_limits(
    limits: Resources, requests: Resources, recommended: Resources, default: Resources
) -> tuple[ResourceList, list[str]]:
    """The limits for CPU and memory, with notes on computed limits only."""
    found, notes = {}, []
    for resource in RESOURCES:
        limit, note = proportional_limit(
            resource, limits.get(resource), requests.get(resource), recommended.get(resource), default.get(resource)
        )
        if limit is not None:
            found[resource] = limit
        if note:
            notes.append(note)
    return found, notes if found else []


def boundary_request(
    resource: str, request: Quantity | None, limit: Quantity | None, boundary: Quantity | None, default: Quantity | None
) -> Quantity | None:
    """The request whose proportional limit equals the boundary; zero if there is no limit."""
    limit = limit or default
    if not limit:
        return Quantity(0)
    if not request or boundary is None:
        return boundary
    return scale(resource, request, limit, boundary)[0]
