"""The arithmetic of a rolling update. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from podfit.api.objects import Object


@dataclass(frozen=True, slots=True)
class Bounds:
    surge: int
    unavailable: int


def scaled(value: int | str, total: int, *, up: bool) -> int:
    if isinstance(value, str):
        share = int(value.rstrip("%")) * total / 100
        return math.ceil(share) if up else math.floor(share)
    return int(value)


def bounds(spec: Object) -> Bounds:
    """The surge and the number of unavailable pods that a Deployment allows during a rollout."""
    strategy = spec.get("strategy") or {}
    replicas = int(spec.get("replicas", 1))
    if strategy.get("type") == "Recreate":
        return Bounds(0, 0)
    rolling = strategy.get("rollingUpdate") or {}
    surge = scaled(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = scaled(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    if surge == 0 and unavailable == 0:
        # Both may be rounded to zero; a rollout has to make progress all the same.
        unavailable = 1
    return Bounds(surge, min(unavailable, replicas))


@dataclass(frozen=True, slots=True)
class Size:
    """A ReplicaSet during a rollout."""

    name: str
    replicas: int
    available: int


def new_size(replicas: int, surge: int, new: int, total: int) -> int:
    """The current size of the new ReplicaSet."""
    if new >= replicas:
        return replicas
    room = replicas + surge - total
    return min(replicas, new + room) if room > 0 else new


def old_sizes(replicas: int, unavailable: int, new: Size, old: list[Size]) -> dict[str, int]:
    """The current size of each old ReplicaSet; oldest first in `old`. Only changes are returned.

    Unhealthy pods are removed first: they serve no traffic. Then healthy ones, as far as availability allows.
    """
    minimum = replicas - unavailable
    total = new.replicas + sum(replica_set.replicas for replica_set in old)
    budget = total - minimum - (new.replicas - new.available)
    if budget <= 0:
        return {}
    sizes = {replica_set.name: replica_set.replicas for replica_set in old}
    left = budget
    for replica_set in old:
        unhealthy = replica_set.replicas - replica_set.available
        gone = min(left, max(0, unhealthy))
        sizes[replica_set.name] -= gone
        left -= gone
    spare = new.available + sum(replica_set.available for replica_set in old) - minimum
    for replica_set in old:
        if spare <= 0:
            break
        gone = min(spare, sizes[replica_set.name], replica_set.available)
        sizes[replica_set.name] -= gone
        spare -= gone
    return {
        replica_set.name: sizes[replica_set.name]
        for replica_set in old
        if sizes[replica_set.name] != replica_set.replicas
    }


def proportional(total: int, sets: list[Size], aims: Mapping[str, int] | None = None) -> dict[str, int]:
    """Distributes a new total among ReplicaSets in the middle of a rollout, by their size; largest first.

    `sets` are sorted by age: of two that are as large the newer one grows first, and the older one shrinks first.
    `aims` are the totals that sets were created for, if different from the current one.
    """
    now = sum(replica_set.replicas for replica_set in sets)
    change = total - now
    if not change or not now:
        return {}
    ordered = sorted(reversed(sets) if change > 0 else sets, key=lambda replica_set: -replica_set.replicas)
    sizes: dict[str, int] = {}
    left = change
    for replica_set in ordered:
        aim = (aims or {}).get(replica_set.name) or now
        share = (2 * replica_set.replicas * total + aim) // (2 * aim) - replica_set.replicas if left else 0
        sizes[replica_set.name] = max(0, replica_set.replicas + (min(share, left) if change > 0 else max(share, left)))
        left -= sizes[replica_set.name] - replica_set.replicas
    for replica_set in ordered:
        # The rounding remainder goes to the largest, or to as many as necessary.
        size = max(0, sizes[replica_set.name] + left)
        left -= size - sizes[replica_set.name]
        sizes[replica_set.name] = size
    return {
        replica_set.name: sizes[replica_set.name]
        for replica_set in sets
        if sizes[replica_set.name] != replica_set.replicas
    }
