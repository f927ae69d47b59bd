"""Estimates for all containers of all autoscalers at once; the numbers equal those of `estimate`.

The rows of one container of one autoscaler form a group. A group of one row is read in place; larger groups are merged
into a matrix first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.fleet.arena import BLOCK, Floats, Ints
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.fleet.matrix import HistogramMatrix
from podfit.vpa.recommender.decide.fleet.merging import merged
from podfit.vpa.recommender.decide.histograms.amounts import MAX_AMOUNT, amount_of
from podfit.vpa.recommender.decide.histograms.estimate import LOWER, UPPER, minimums, with_margin

TARGET_LOWER_UPPER = 3
NO_BUCKET = -1
"""The percentile position of an empty histogram."""


@dataclass(frozen=True, slots=True)
class Groups:
    """`rows[starts[i]:starts[i + 1]]` are the rows of group i; `siblings[i]` containers share its pod's minimum."""

    rows: Ints
    starts: Ints
    siblings: Ints

    @staticmethod
    def of(groups: Sequence[Sequence[int]], siblings: Sequence[int]) -> Groups:
        sizes = np.fromiter((len(group) for group in groups), np.int64, len(groups))
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        rows = np.fromiter((row for group in groups for row in group), np.int64, int(starts[-1]))
        return Groups(rows, starts, np.asarray(siblings, np.int64))


@dataclass(frozen=True, slots=True)
class Estimates:
    """Whole millicores and bytes: target, lower and upper bound (first axis) of every group."""

    cpu: Ints
    memory: Ints
    sampled: NDArray[np.bool_]
    """Whether a group has samples: of cpu, of memory (first axis)."""


def estimate_groups(fleet: Fleet, groups: Groups) -> Estimates:
    config = fleet.config
    if not len(groups.siblings):
        nothing = np.zeros((TARGET_LOWER_UPPER, 0), np.int64)
        return Estimates(nothing, nothing, np.zeros((2, 0), np.bool_))
    first = np.minimum.reduceat(fleet.first[groups.rows], groups.starts[:-1])
    last = np.maximum.reduceat(fleet.last[groups.rows], groups.starts[:-1])
    count = np.add.reduceat(fleet.count[groups.rows], groups.starts[:-1])
    span = np.where(np.isinf(first), 0.0, last - np.where(np.isinf(first), 0.0, first))
    least = [minimums(config, siblings) for siblings in range(1, int(groups.siblings.max()) + 1)]
    made, sampled = [], []
    for name, matrix, fractions, interval in (
        ("cpu", fleet.cpu, _cpu_fractions(config), config.confidence_interval_cpu),
        ("memory", fleet.memory, _memory_fractions(config), config.confidence_interval_memory),
    ):
        amounts = _amounts(matrix, config, 1000.0 if name == "cpu" else 1.0)
        found = group_percentiles(matrix, groups, fractions)
        sampled.append(found[0] != NO_BUCKET)
        base = amounts[found]
        trust = np.minimum(span / interval, count / (interval / 60.0))
        floor = np.array([entry[name] for entry in least])[groups.siblings - 1]
        made.append(np.stack([np.maximum(sizes, floor) for sizes in _widened(base, trust)]))
    cpu, memory = made
    return Estimates(cpu, memory, np.stack(sampled))


def group_percentiles(matrix: HistogramMatrix, groups: Groups, fractions: tuple[float, ...]) -> Ints:
    """The bucket for every fraction and group; -1 for an empty histogram."""
    found = np.empty((len(fractions), len(groups.siblings)), np.int64)
    sizes = np.diff(groups.starts)
    single = sizes == 1
    if single.any():
        by_row = matrix.percentile_buckets(fractions)
        found[:, single] = by_row[:, groups.rows[groups.starts[:-1][single]]]
    several = np.flatnonzero(~single)
    for start in range(0, len(several), BLOCK):
        chosen = several[start : start + BLOCK]
        dense = merged(matrix, groups.rows, groups.starts[chosen], sizes[chosen])
        found[:, chosen] = dense.percentile_buckets(fractions)
    return found


def _amounts(matrix: HistogramMatrix, config: Config, unit: float) -> Ints:
    """The amount (with margin) of each bucket. The last entry, which index -1 selects, is for empty histograms."""
    ends = [amount_of(matrix.scheme.end(bucket) * unit) for bucket in range(matrix.scheme.count)]
    return np.array([with_margin(end, config.recommendation_margin_fraction) for end in ends] + [0], np.int64)


def _widened(base: Ints, trust: Floats) -> tuple[Ints, Ints, Ints]:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # For these exponents, squaring and dividing rounds exactly as upstream's power function does.
        lower = 1.0 + LOWER[0] / trust
        lower = 1.0 / (lower * lower)
        upper = 1.0 + UPPER[0] / trust
        return base[0], _scaled(base[1], lower), _scaled(base[2], upper)


def _scaled(amounts: Ints, factors: Floats) -> Ints:
    product: NDArray[np.float64] = amounts.astype(np.float64) * factors
    product[~(product > 0)] = 0.0
    np.minimum(product, float(MAX_AMOUNT), out=product)
    return product.astype(np.int64)


def _cpu_fractions(config: Config) -> tuple[float, ...]:
    return (
        config.target_cpu_percentile,
        config.recommendation_lower_bound_cpu_percentile,
        config.recommendation_upper_bound_cpu_percentile,
    )


def _memory_fractions(config: Config) -> tuple[float, ...]:
    return (
        config.target_memory_percentile,
        config.recommendation_lower_bound_memory_percentile,
        config.recommendation_upper_bound_memory_percentile,
    )
