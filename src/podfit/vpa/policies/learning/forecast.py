"""Forecasts of a container's next hour by regression on its traits, with weights from public traces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podfit.vpa.policies.learning.fitted import both_signs, constants
from podfit.vpa.policies.learning.hours import FLOOR, Array, Hours, instead, steady_mean
from podfit.vpa.policies.learning.network import network, sums
from podfit.vpa.policies.learning.traits import levels_of, traits_of

LIMITS = (-4.0, 2.0)
"""No forecast is further than this from the maximum of the last hour, as a logarithm."""
MOST_SPREAD = -0.7


@dataclass(frozen=True, slots=True)
class Forecast:
    """For the coming hour: `level`, and its typical error factor (as a logarithm)."""

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
    """Traits and the container's size relative to the price of a shortage."""
    least = FLOOR["cpu"]
    amounts = (np.maximum(instead(steady_mean(hours, span), least), least) / price for span in (24, 240))
    day, all_ = (np.log(amount) for amount in amounts)
    return [*values, day, day**2, all_]


def cheapest(values: list[Array], hours: Hours, base: Array, price: float) -> Array:
    """The size from a network fitted to cost, not to usage."""
    out = network(with_amounts(values, hours, price), constants()["cheapest"])
    return np.asarray(base * np.exp(np.clip(out, *LIMITS)))
