"""Features of a container at the end of an hour, as dimensionless numbers: logarithms relative to its maximum of that
hour. They are the input of the networks of `auto`."""

from __future__ import annotations

import numpy as np

from podfit.vpa.policies.learning.hours import (
    Array,
    Hours,
    filled,
    instead,
    recent_max,
    recent_mean,
    recent_means,
    shifted,
)

NAMES = (
    *("cur", "quarter", "half", "mean", "least", "second"),
    *("max2", "max3", "max6", "max12", "max24", "max48", "max240", "prev", "prev2", "mean6", "mean24", "meantop24"),
    *("seas1", "seas3", "ratio1", "ratio4", "ratio7", "ratiomax", "after", "last", "rise24", "rise", "risemax24"),
    *("risemax", "swing", "swing24"),
)
LEVELS = (
    *(f"rank{rank}of{span}" for span in (6, 24, 240) for rank in (1, 2, 3)),
    *("day", "days2", "days7", "prevmean", "mean3", "mean240", "spread24", "least24", "meantop240"),
)
"""Further traits, only read with their own sign: quantiles of the last hours and days, and means of the same hour of
earlier days."""
BURSTY = 0.25
"""A container whose samples differ within an hour by more than this fraction of their mean, over a day, is bursty."""


def swing24(hours: Hours) -> Array:
    """The variation of samples within an hour, relative to their mean, averaged over a day; after a gap its previous
    value."""
    known = recent_max(np.where(hours.known, 1.0, 0.0), 24) > 0
    return instead(filled(np.where(known, recent_mean(hours.spread / hours.mean, 24), np.nan)), 0.0)


def traits_of(hours: Hours, base: Array) -> list[Array]:
    """Each trait [container, hour]; 0 if unknown. `base` is the maximum of the last known hour."""
    level, top = np.log(base), hours.top
    found: dict[str, Array] = {}

    def relative(name: str, values: Array) -> None:
        found[name] = instead(np.log(np.where(values > 0, values, np.nan)) - level, 0.0)

    for name in ("quarter", "half", "mean", "least"):
        relative(name, getattr(hours, name))
    relative("cur", hours.last)
    relative("second", hours.ranked[1])
    for span in (2, 3, 6, 12, 24, 48, 240):
        relative(f"max{span}", np.maximum(recent_max(top, span), base))
    relative("prev", shifted(top, 1))
    relative("prev2", shifted(top, 2))
    relative("mean6", recent_mean(hours.mean, 6))
    relative("mean24", recent_mean(hours.mean, 24))
    relative("meantop24", recent_mean(top, 24))
    found.update(_rhythm(top, level))
    found.update(_rises(top))
    found["swing"] = instead(hours.spread / hours.mean, 0.0)
    found["swing24"] = swing24(hours)
    return [instead(found[name], 0.0) for name in NAMES]


def levels_of(hours: Hours, base: Array) -> list[Array]:
    """Each trait of `LEVELS` [container, hour]; 0 if unknown."""
    level, mean = np.log(base), hours.mean
    ranked = [recent_means(np.where(np.isfinite(array), array, np.nan), 6, 24, 240) for array in hours.ranked[1:]]
    same = [shifted(mean, 24 * day - 1) for day in range(1, 8)]
    found = [
        *(means[at] for at in range(3) for means in ranked),
        *(same[0], np.fmax(same[0], same[1]), mean_of(same), shifted(mean, 1)),
        *recent_means(mean, 3, 240),
        *(recent_mean(hours.spread, 24), recent_mean(hours.least, 24), recent_mean(hours.top, 240)),
    ]
    return [instead(np.log(np.where(array > 0, array, np.nan)) - level, 0.0) for array in found]


def _rhythm(top: Array, level: Array) -> dict[str, Array]:
    """Usage in the coming hour on earlier days, and its ratio to the hour before it."""
    coming = [shifted(top, 24 * day - 1) for day in range(1, 8)]
    ratios = [np.log(next_) - np.log(shifted(top, 24 * day)) for day, next_ in enumerate(coming, 1)]
    after = [shifted(top, 24 * day - 2) for day in range(1, 4)]
    return {
        "seas1": np.log(coming[0]) - level,
        "seas3": np.log(_max_of(coming[:3])) - level,
        "ratio1": ratios[0],
        "ratio4": mean_of(ratios[:4]),
        "ratio7": ratios[6],
        "ratiomax": _max_of(ratios[:3]),
        "after": np.log(_max_of(after)) - level,
    }


def _rises(top: Array) -> dict[str, Array]:
    change = np.log(top) - np.log(shifted(top, 1))
    up = np.maximum(change, 0.0) ** 2
    return {
        "last": change,
        "rise24": np.sqrt(np.maximum(recent_mean(up, 24), 0.0)),
        "rise": np.sqrt(np.maximum(recent_mean(up, 240), 0.0)),
        "risemax24": recent_max(change, 24),
        "risemax": recent_max(change, 240),
    }


def _max_of(values: list[Array]) -> Array:
    out = values[0]
    for more in values[1:]:
        out = np.fmax(out, more)
    return out


def mean_of(values: list[Array]) -> Array:
    known = np.stack([~np.isnan(array) for array in values]).sum(0)
    total = np.add.reduce([instead(array, 0.0) for array in values])
    return np.where(known > 0, total / np.maximum(known, 1), np.nan)


def base_of(hours: Hours) -> Array:
    return filled(hours.top)
