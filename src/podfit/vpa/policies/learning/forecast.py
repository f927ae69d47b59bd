"""Forecasts of a container's next hour by regression on its traits, with weights from public traces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podfit.vpa.policies.learning.fitted import both_signs, constants
from podfit.vpa.policies.learning.hours import FLOOR, Array, Hours, instead, steady_mean
from podfit.vpa.policies.learning.network import network, sums
from podfit.vpa.policies.learning.traits import levels_of, traits_of

LIMITS = (-4.0, 2.0)
"""No forecast is further from the maximum of the last hour, as a logarithm."""
MOST_SPREAD = -0.7


@dataclass(frozen=True, slots=True)
class Forecast:
    """Of the coming hour: `level`, and by which factor (as a logarithm) it is typically missed."""

    level: Array
    spread: Array


def forecast(kind: str, values: list[Array], base: Array) -> Forecast:
    fitted = constants()[kind]
    both = sums(values, [fitted["level"], fitted["spread"]], fitted["center"], fitted["scale"])
    level, spread = (np.clip(one, *LIMITS) for one in both)
    return Forecast(base * np.exp(level), np.exp(np.minimum(spread, MOST_SPREAD)))


def read(hours: Hours, base: Array) -> list[Array]:
    return [*both_signs(traits_of(hours, base)), *levels_of(hours, base)]


def with_amounts(values: list[Array], hours: Hours, price: float) -> list[Array]:
    """Traits plus how large the container is beside the price of being short."""
    least = FLOOR["cpu"]
    amounts = (np.maximum(instead(steady_mean(hours, span), least), least) / price for span in (24, 240))
    day, all_ = (np.log(amount) for amount in amounts)
    return [*values, day, day**2, all_]


def cheapest(values: list[Array], hours: Hours, base: Array, price: float) -> Array:
    """The size that a network fitted to cost, not to usage, gives."""
    out = network(with_amounts(values, hours, price), constants()["cheapest"])
    return np.asarray(base * np.exp(np.clip(out, *LIMITS)))
