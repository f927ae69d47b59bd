"""Caps recommendations at policies and limits. Each cap is described in the pod's annotation."""

from __future__ import annotations

from collections.abc import Mapping

from podfit.api.quantity import Quantity
from podfit.vpa.model.objects.pods import ResourceList

Resources = Mapping[str, Quantity]


def cap_to_policy(recommended: Resources, least: Resources, most: Resources) -> tuple[ResourceList, list[str]]:
    """Applies minAllowed, then maxAllowed, which therefore wins; zero means no bound. Also returns notes about the
    caps."""
    capped, notes = dict(recommended), []
    for resource in sorted(capped):
        low, high = least.get(resource), most.get(resource)
        if low and capped[resource] < low:
            capped[resource] = low
            notes.append(f"{resource} capped to minAllowed")
        if high and capped[resource] > high:
            capped[resource] = high
            notes.append(f"{resource} capped to maxAllowed")
    return capped, notes


def cap_to_limits(recommended: Resources, limits: Resources) -> tuple[ResourceList, list[str]]:
    """Caps requests at the limits in force. Amounts are compared in thousandths."""
    capped, notes = dict(recommended), []
    for resource in sorted(capped):
        limit = limits.get(resource)
        if limit is not None and capped[resource].milli > limit.milli:
            capped[resource] = limit
            notes.append(f"{resource} capped to container limit")
    return capped, notes
