"""Divides the seats of a server among priority levels, which can borrow seats from each other. Pure.

A level has a nominal limit derived from its shares. It lends unused seats up to its lending limit, and borrows up to
its borrowing limit. The current limits follow the demand of the last period, as in kube-apiserver.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from podfit.api.objects import Object

SMOOTHING = 0.977
"""The weight of the previous demand one period later."""
_LEAST_TARGET = 0.001


@dataclass(frozen=True, slots=True)
class LevelBounds:
    nominal: int
    least: int
    """The seats that remain if all lendable ones are lent."""
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


def bounds(levels: Mapping[str, Object], total: int) -> dict[str, LevelBounds]:
    """The limits of each level: `levels` are their specs by name, `total` the seats of the server."""
    shares = {name: _shares(spec) for name, spec in levels.items()}
    whole = sum(shares.values()) or 1
    found: dict[str, LevelBounds] = {}
    for name, spec in levels.items():
        section = _section(spec)
        nominal = math.ceil(total * shares[name] / whole)
        lendable = _rounded(nominal * (section.get("lendablePercent") or 0) / 100)
        borrowing = section.get("borrowingLimitPercent")
        most = nominal + (total if borrowing is None else _rounded(nominal * borrowing / 100))
        found[name] = LevelBounds(nominal, nominal - lendable, most, _is_exempt(spec))
    return found


@dataclass(frozen=True, slots=True)
class Division:
    """The seats of the next period."""

    limits: dict[str, int]
    targets: dict[str, float]
    """The demand of each level that is not exempt."""
    fair: float = 0.0
    """The multiple of their targets that levels get, within their bounds."""


def divide(levels: Mapping[str, LevelBounds], demands: Mapping[str, Demand]) -> Division:
    """Exempt levels get the seats that they need; if few are left, the other levels get only their lower bounds."""
    wanted = {name: _wanted(level, demands[name]) for name, level in levels.items()}
    shared = {name: level for name, level in levels.items() if not level.exempt}
    targets = {name: max(float(wanted[name]), demands[name].smoothed) for name in shared}
    total = sum(level.nominal for level in levels.values())
    room = total - sum(wanted[name] for name, level in levels.items() if level.exempt)
    fair = 0.0
    least, needed = sum(level.least for level in shared.values()), sum(wanted[name] for name in shared)
    if room <= least:
        given = {name: level.least for name, level in shared.items()}
    elif room <= needed:
        part = (room - least) / (needed - least)
        given = {name: level.least + _rounded((wanted[name] - level.least) * part) for name, level in shared.items()}
    else:
        given, fair = _fair({name: (wanted[name], level.most) for name, level in shared.items()}, targets, total)
    found = {name: wanted[name] if level.exempt else given[name] for name, level in levels.items()}
    return Division(found, targets, fair)


def _wanted(level: LevelBounds, demand: Demand) -> int:
    """The minimum of a level: its lower bound, or its peak demand (of a limited level at most the nominal limit)."""
    return max(level.least, demand.high if level.exempt else min(level.nominal, demand.high))


def _fair(
    ranges: Mapping[str, tuple[int, int]], targets: Mapping[str, float], total: int
) -> tuple[dict[str, int], float]:
    """Gives every level the same multiple of its target, within its range, so that the sum is the total."""
    shares = {name: max(target, _LEAST_TARGET) for name, target in targets.items()}

    def given(multiple: float) -> dict[str, float]:
        return {
            name: min(float(high), max(float(low), multiple * shares[name])) for name, (low, high) in ranges.items()
        }

    low, high = 0.0, max((high / shares[name] for name, (_, high) in ranges.items()), default=0.0)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(given(middle).values()) < total else (low, middle)
    return {name: _rounded(value) for name, value in given(high).items()}, high


def _rounded(value: float) -> int:
    """Rounds halves up, as in Go, and tolerates the small error of the bisection in `_fair`."""
    return math.floor(round(value, 9) + 0.5)


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
