"""Weighted sums of traits, and a small network: one layer of rectified sums, and their sum.

Traits and weights are rounded to multiples of a power of two, so that a matrix product is exact in whatever order it is
added: a container's result does not depend on how many containers are in the same call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from podfit.vpa.policies.learning.hours import Array

CLAMP = 5.0
"""Standardised traits beyond this many deviations are cut off."""
TRAIT, WEIGHT = 256.0, 4096.0
"""Units of one: traits have multiples of 1/256, weights of 1/4096. Their products stay far below 2**53 units."""
BLOCK = 8192
"""The number of hours that are standardised at a time; they fit the processor's cache."""
ON_ONE_CORE = 2.0**18
"""A product of more multiplications than this is spread over all cores by OpenBLAS, which here costs twice the
processor time and gains nothing."""


def standard(values: Array, center: Array, scale: Array) -> Array:
    """Standardises traits [trait, any], in units of 1/256 of a standard deviation."""
    values *= (TRAIT / scale)[:, None]
    values -= (center * TRAIT / scale)[:, None]
    np.rint(values, out=values)
    np.maximum(values, -CLAMP * TRAIT, out=values)
    return np.minimum(values, CLAMP * TRAIT, out=values)


def sums(values: list[Array], weights: list[list[float]], center: list[float], scale: list[float]) -> Array:
    """The weighted sums [row of weights, container, hour]. The last weight of a row is its constant."""
    flat = [array.reshape(-1) for array in values]
    matrix = np.rint(np.asarray(weights) * WEIGHT)
    middle, deviation = np.asarray(center), np.asarray(scale)
    out = np.empty((len(matrix), flat[0].size))
    width = int(ON_ONE_CORE // matrix.size)
    for begin in range(0, flat[0].size, BLOCK):
        part = standard(np.stack([array[begin : begin + BLOCK] for array in flat]), middle, deviation)
        sums_here = out[:, begin : begin + BLOCK]
        for at in range(0, part.shape[1], width):
            np.matmul(matrix[:, :-1], part[:, at : at + width], out=sums_here[:, at : at + width])
    out /= TRAIT * WEIGHT
    out += matrix[:, -1:] / WEIGHT
    return out.reshape(len(matrix), *values[0].shape)


def network(values: list[Array], constants: dict[str, Any]) -> Array:
    """The network's output [container, hour]. The first row of `layer` is added unchanged, the others where they are
    positive."""
    direct, *hidden = sums(values, constants["layer"], constants["center"], constants["scale"])
    for weight, layer in zip(constants["out"], hidden, strict=True):
        np.maximum(layer, 0.0, out=layer)
        direct += np.multiply(layer, weight, out=layer)
    return np.asarray(direct)
