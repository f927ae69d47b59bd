"""Converts CPU shares to weights of cgroup v2: two formulas are in use, and a weight is coarser than the shares."""

from __future__ import annotations

import math
from collections.abc import Callable

from podfit.agent.runtimes.values import MAX_SHARES, MIN_SHARES


def weight_of(shares: int) -> int:
    """The kubelet's linear map of 2…262144 to 1…10000."""
    shares = min(max(shares, MIN_SHARES), MAX_SHARES)
    return 1 + (shares - 2) * 9999 // 262142


def steeper_weight_of(shares: int) -> int:
    """The map of newer container runtimes, which gives the default of 1024 shares the default weight of 100."""
    if shares <= MIN_SHARES:
        return 1
    if shares >= MAX_SHARES:
        return 10_000
    power = math.log2(shares)
    return math.ceil(10 ** ((power * power + 125 * power) / 612 - 7 / 34))


def shares_of(weight: int) -> int:
    """The shares for a weight, approximately: used for groups whose configured shares are unknown."""
    return (weight - 1) * 262142 // 9999 + 2


def formula(shares: int, weight: int) -> Callable[[int], int]:
    """The formula that produced this weight from these shares; the linear one if neither formula did."""
    return steeper_weight_of if weight == steeper_weight_of(shares) != weight_of(shares) else weight_of
