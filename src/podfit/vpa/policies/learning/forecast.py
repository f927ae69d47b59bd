"""Forecasts the cheapest size for the next hour of a container, with a small network on its traits and weights from
public traces."""

from __future__ import annotations

import numpy as np

from podfit.vpa.policies.learning.fitted import both_signs, constants
from podfit.vpa.policies.learning.hours import FLOOR, Array, Hours, instead, steady_mean
from podfit.vpa.policies.learning.network import network
from podfit.vpa.policies.learning.traits import levels_of, traits_of

LIMITS = (-4.0, 2.0)
"""The range of a size relative to the maximum of the last hour, as logarithms."""
CALM, BURSTY = "calm", "bursty"


def read(hours: Hours, base: Array) -> list[Array]:
    return [*both_signs(traits_of(hours, base)), *levels_of(hours, base)]


def with_amounts(values: list[Array], hours: Hours, price: float) -> list[Array]:
    """The traits, and the container's size relative to the price of a shortage."""
    least = FLOOR["cpu"]
    amounts = (np.maximum(instead(steady_mean(hours, span), least), least) / price for span in (24, 240))
    day, all_ = (np.log(amount) for amount in amounts)
    return [*values, day, day**2, all_]


def cheapest(kind: str, values: list[Array], hours: Hours, base: Array, price: float) -> Array:
    """The sizes from the network for calm or for bursty containers. It was fitted to minimise cost, not to predict
    usage."""
    out = network(with_amounts(values, hours, price), constants()[kind])
    return np.asarray(base * np.exp(np.clip(out, *LIMITS)))
