"""Validates minAllowed and maxAllowed of a policy: one set of rules and messages for the webhook and for readers."""

from __future__ import annotations

from collections.abc import Iterator

from podfit.api.objects import ObjectView
from podfit.api.quantity import NANO, Quantity
from podfit.api.status import FieldError, invalid
from podfit.vpa.model.objects.policy import CPU, MEMORY


def wrong_amounts(path: str, policy: ObjectView) -> Iterator[FieldError]:
    """The errors in the policy at this path. Raises QuantityError for an invalid quantity."""
    least, most = policy.get("minAllowed") or {}, policy.get("maxAllowed") or {}
    for resource in sorted(least):
        low = Quantity.parse(least[resource])
        yield from _amount(f"{path}.minAllowed[{resource}]", resource, low)
        if resource in most and Quantity.parse(most[resource]) < low:
            high = Quantity.parse(most[resource])
            detail = f'max resource for {resource} is lower than min of "{low.as_written()}"'
            yield invalid(f"{path}.maxAllowed[{resource}]", high.as_written(), detail)
    for resource in sorted(most):
        yield from _amount(f"{path}.maxAllowed[{resource}]", resource, Quantity.parse(most[resource]))


def contradictions(path: str, policy: ObjectView) -> Iterator[FieldError]:
    """Bounds that no recommendation can satisfy: negative amounts, and a maximum below the minimum."""
    for error in wrong_amounts(path, policy):
        if error.detail == _NEGATIVE or error.detail.startswith("max resource"):
            yield error


_NEGATIVE = "must be greater than or equal to 0"


def _amount(path: str, resource: str, quantity: Quantity) -> Iterator[FieldError]:
    if quantity.nanos < 0:
        yield invalid(path, quantity.as_written(), _NEGATIVE)
    yield from not_whole(path, resource, quantity)


def not_whole(path: str, resource: str, quantity: Quantity) -> Iterator[FieldError]:
    if resource == CPU and quantity.nanos % 10**6:
        yield invalid(path, quantity.as_written(), "must be a whole number of milli CPUs")
    if resource == MEMORY and quantity.nanos % NANO:
        yield invalid(path, quantity.as_written(), "must be a whole number of bytes")
