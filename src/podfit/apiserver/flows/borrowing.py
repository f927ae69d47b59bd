"""Divides the seats of a server among priority levels, which can borrow from each other. Pure.

A level has a nominal limit derived from its shares. It lends part of it while it does not need it, and borrows up to
its own limit; the current limits follow the demand of the last period, as in kube-apiserver.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from podfit.api.objects import Object

SMOOTHING = 0.977
"""The weight of the previous demand one period later."""


@dataclass(frozen=True, slots=True)
class Bounds:
    nominal: int
    least: int
    """The rest if everything lendable is lent."""
    most: int
    exempt: bool = False


@dataclass(slots=True)
class Demand:
    """Seats requested in the last period, including waiting ones."""

    high: int = 0
    average: float = 0.0
    deviation: float = 0.0
    smoothed: float = 0.0

    def observe(self, high: int, average: float, deviation: float) -> None:
        self.high, self.average, self.deviation = high, average, deviation
        envelope = average + deviation
        self.smoothed = max(envelope, SMOOTHING * self.smoothed + (1 - SMOOTHING) * envelope)


def bounds(levels: Mapping[str, Object], total: int) -> dict[str, Bounds]:
    """The limits of each level: `levels` are their specs by name, `total` the seats of the server."""
    shares = {name: _shares(spec) for name, spec in levels.items()}
    whole = sum(shares.values()) or 1
    found: dict[str, Bounds] = {}
    for name, spec in levels.items():
        section = _section(spec)
        nominal = math.ceil(total * shares[name] / whole)
        lendable = round(nominal * (section.get("lendablePercent") or 0) / 100)
        borrowing = section.get("borrowingLimitPercent")
        most = nominal + (total if borrowing is None else round(nominal * borrowing / 100))
        found[name] = Bounds(nominal, nominal - lendable, most, _is_exempt(spec))
    return found


def limits(levels: Mapping[str, Bounds], demands: Mapping[str, Demand]) -> dict[str, int]:
    """The limits for the next period. Exempt levels take what they need; the others share the rest."""
    wanted = {name: _wanted(level, demands[name]) for name, level in levels.items()}
    shared = {name: level for name, level in levels.items() if not level.exempt}
    room = sum(level.nominal for level in levels.values()) - sum(
        wanted[name] for name, level in levels.items() if level.exempt
    )
    least, needed = sum(level.least for level in shared.values()), sum(wanted[name] for name in shared)
    if room <= least:
        given = {name: level.least for name, level in shared.items()}
    elif room <= needed:
        part = (room - least) / (needed - least)
        given = {name: level.least + round((wanted[name] - level.least) * part) for name, level in shared.items()}
    else:
        targets = {name: max(float(wanted[name]), demands[name].smoothed) for name in shared}
        given = _fair({name: (wanted[name], level.most) for name, level in shared.items()}, targets, room)
    return {name: wanted[name] if level.exempt else given[name] for name, level in levels.items()}


def _wanted(level: Bounds, demand: Demand) -> int:
    """The minimum of a level: what it used, within the seats that it does not lend."""
    return max(level.least, demand.high if level.exempt else min(level.nominal, demand.high))


def _fair(ranges: Mapping[str, tuple[int, int]], targets: Mapping[str, float], room: int) -> dict[str, int]:
    """Gives every level the same multiple of its target, within its range, so that the sum is the available number."""

    def given(multiple: float) -> dict[str, float]:
        return {
            name: min(float(high), max(float(low), multiple * max(targets[name], 1.0)))
            for name, (low, high) in ranges.items()
        }

    low, high = 0.0, float(room) + 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(given(middle).values()) < room else (low, middle)
    return {name: round(value) for name, value in given(high).items()}


def _is_exempt(spec: Object) -> bool:
    return spec.get("type") == "Exempt"


def _section(spec: Object) -> Object:
    found: Object = (spec.get("exempt") if _is_exempt(spec) else spec.get("limited")) or {}
    return found


def _shares(spec: Object) -> int:
    shares = _section(spec).get("nominalConcurrencyShares")
    if shares is None:
        return 0 if _is_exempt(spec) else 30
    return int(shares)
