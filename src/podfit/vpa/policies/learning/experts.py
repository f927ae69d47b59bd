"""Many simple rules, of which each container follows the one that would have cost least so far.

An expert is a base (a maximum, a mean, a forecast) times a factor. After every hour each expert is charged with the
cost that its size would have had in that hour: idle capacity, and a price for shortages. For CPU the cost of older
hours fades. Out-of-memory kills are rare, so those of all days count, together with how often the same expert failed
other containers (the prior, from public traces).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.policies.base import GIB, Costs
from podfit.vpa.policies.learning.hours import RANK_WEIGHTS, Array, Hours

Sizes = NDArray[np.float32]
Flags = NDArray[np.bool_]
FIVE_MINUTES = 12.0
"""Costs of an hour are counted in units of five minutes."""
FADE, BURSTY_FADE = 0.5 ** (1 / 48), 0.5 ** (1 / 24)
"""CPU: the half-life of an expert's costs is two days; one day for bursty containers."""
CPU_PRIOR_HOURS = 12.0
MEMORY_PRIOR_DAYS = 2.0
NOW = 0.25
"""Memory: the weight of this hour's size relative to the expert's average."""
BLEND = 0.015
"""Memory: experts whose cost is within about this fraction of an OOM-day of the best one are averaged."""
CALM_BLEND, BURSTY_BLEND = 0.5, 1.2
"""The same for CPU, as a number of short samples."""


@dataclass(frozen=True, slots=True)
class Family:
    """A base and its factors: `base * exp(factor * spread)`, or without a spread `base * exp(factor)`."""

    name: str
    base: Array
    factors: tuple[float, ...]
    spread: Array | None = None
    bursty: bool | None = None
    """Whether only bursty containers follow these experts (True), only calm ones (False), or both (None)."""


def factors(first: float, last: float, step: float) -> tuple[float, ...]:
    return tuple(float(value) for value in np.arange(first, last + step / 2, step))


@cache
def _steps(factors: tuple[float, ...]) -> Sizes:
    return np.array(factors, np.float32)[:, None]


@cache
def _powers(factors: tuple[float, ...]) -> Sizes:
    return np.asarray(np.exp(_steps(factors)))


def _at(families: list[Family], hour: int, least: float) -> Sizes:
    """The sizes [expert, container] that are decided at the end of an hour."""
    out = np.empty((sum(len(family.factors) for family in families), len(families[0].base)), np.float32)
    at = 0
    for family in families:
        steps = _steps(family.factors)
        powers = (
            _powers(family.factors)
            if family.spread is None
            else np.exp(steps * family.spread[:, hour].astype(np.float32))
        )
        np.multiply(powers, family.base[:, hour].astype(np.float32), out=out[at : at + len(steps)])
        at += len(steps)
    return np.maximum(out, np.float32(least), out=out)


def _open_to(families: list[Family], bursty: bool) -> NDArray[np.intp] | slice:
    """The experts that these containers may follow, as a slice if possible, because that avoids a copy."""
    found = np.flatnonzero(
        np.concatenate([[family.bursty in (None, bursty)] * len(family.factors) for family in families])
    )
    if not len(found) or found[-1] - found[0] + 1 == len(found):
        return slice(int(found[0]), int(found[-1]) + 1) if len(found) else slice(0)
    return found


def choose_cpu(hours: Hours, families: list[Family], prior: Array, bursty: Flags, costs: Costs, least: float) -> Array:
    """The sizes [container, hour] that are decided at the end of each hour. `bursty` marks hours in which bursts are
    cheap.

    In a calm container the first short sample raises the size at once, so an hour has at most one.
    """
    calm_ones, bursty_ones = (_open_to(families, kind) for kind in (False, True))
    spent = CPU_PRIOR_HOURS * prior[:, None].astype(np.float32) * np.float32(costs.short * FIVE_MINUTES)
    spent = np.repeat(spent, len(hours.top), axis=1)
    chosen = np.full(hours.top.shape, np.nan)
    ever, always = bool(bursty.any()), bool(bursty.all())
    # The order [hour, container] keeps an hour contiguous in memory.
    idle_above = np.where(hours.known, hours.mean, np.inf).T.astype(np.float32, order="C")
    price = (np.where(bursty, costs.burst, costs.short) * hours.known * FIVE_MINUTES).T.astype(np.float32, order="C")
    ranked = [values.T.astype(np.float32, order="C") for values in hours.ranked]
    fade = np.where(hours.known, np.where(bursty, BURSTY_FADE, FADE), 1.0).T.astype(np.float32, order="C")
    work, short = np.empty_like(spent), np.empty(spent.shape, bool)
    standing: Sizes | None = None
    for hour in range(hours.top.shape[1]):
        if standing is not None:
            spent *= fade[hour]
            np.subtract(standing, idle_above[hour], out=work)
            np.maximum(work, np.float32(0.0), out=work)
            work *= np.float32(FIVE_MINUTES)
            spent += work
            spent += np.multiply(np.greater(ranked[0][hour], standing, out=short), price[hour], out=work)
            each_rank = price[hour] * bursty[:, hour]
            for weight, rank in zip(RANK_WEIGHTS[1:], ranked[1:], strict=True) if ever else ():
                np.greater(rank[hour], standing, out=short)
                spent += np.multiply(short, each_rank * np.float32(weight), out=work)
        fresh = _at(families, hour, least)
        if not always and len(calm := fresh[calm_ones]):
            chosen[:, hour] = _blended(calm, spent[calm_ones], CALM_BLEND * costs.short * FIVE_MINUTES)
        if ever:
            blended = _blended(fresh[bursty_ones], spent[bursty_ones], BURSTY_BLEND * costs.burst * FIVE_MINUTES)
            chosen[:, hour] = np.where(bursty[:, hour], blended, chosen[:, hour])
        standing = np.where(np.isfinite(fresh), fresh, np.float32(0.0))
    return chosen


def choose_memory(hours: Hours, families: list[Family], prior: Array, costs: Costs, least: float) -> Array:
    """The sizes [container, hour], as for CPU. An expert is charged once for a day with a kill."""
    price = np.float32(costs.oom_day * FIVE_MINUTES * GIB)
    count = len(prior)
    idle = np.zeros((count, len(hours.top)), np.float32)
    kills, today = np.zeros_like(idle), np.zeros(idle.shape, bool)
    days = np.zeros(len(hours.top), np.float32)
    expected = (MEMORY_PRIOR_DAYS * prior[:, None]).astype(np.float32)
    chosen = np.full(hours.top.shape, np.nan)
    short, work = np.empty_like(today), np.empty_like(idle)
    # The order [hour, container] keeps an hour contiguous in memory.
    tops = np.ascontiguousarray(hours.ranked[0].T)
    levels = np.where(hours.known, hours.mean, np.inf).T.astype(np.float32, order="C")
    standing: Sizes | None = None
    for hour in range(hours.top.shape[1]):
        known = hours.known[:, hour]
        if hour % 24 == 0:
            today[:] = False
        if standing is not None:
            np.greater(tops[hour], standing, out=short)
            short &= known
            short &= standing > 0
            kills += short & ~today
            today |= short
            np.subtract(standing, levels[hour], out=work)
            np.maximum(work, np.float32(0.0), out=work)
            work *= np.float32(FIVE_MINUTES)
            idle += work
        days += known.astype(np.float32) / np.float32(24.0)
        fresh = _at(families, hour, least)
        cost = (1 - NOW) * idle / np.maximum(days, np.float32(1e-6)) + np.float32(NOW * 24 * FIVE_MINUTES) * fresh
        cost += price * (kills + expected) / (days + np.float32(MEMORY_PRIOR_DAYS))
        chosen[:, hour] = _blended(fresh, cost, BLEND * float(price))
        standing = np.where(np.isfinite(fresh), fresh, np.float32(0.0))
    return chosen


def _blended(sizes: Sizes, cost: Sizes, within: float) -> Array:
    """The geometric mean of the sizes of the best experts: those that cost at most about `within` more than the
    cheapest."""
    weights = np.exp(-(cost - cost.min(0)) / np.float32(within))
    total, share = (_in_order(array) for array in (weights * np.log(sizes), weights))
    return np.asarray(np.exp(total / share), np.float64)


def _in_order(values: Sizes) -> Sizes:
    """The sum of the rows, added in order. NumPy's own sum would round differently for one container than for many."""
    total: Sizes = values[0].copy()
    for row in values[1:]:
        total += row
    return total
