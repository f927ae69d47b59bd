"""The range around a target within which the updater leaves requests unchanged, as in podfit's recommender.

A policy other than `default` has narrow bounds if changes are made in place. Otherwise the bounds are those of the
Kubernetes recommender: the 50th and the 95th percentile with a margin, wider with few samples, and always enclosing the
target.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from podfit.sim.cluster.pods import Floats, Ints
from podfit.sim.scenario.model import IN_PLACE, IN_PLACE_OR_RECREATE
from podfit.vpa.policies.base import DAY, UsageSeries, sizes_of
from podfit.vpa.policies.default import Default
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.curves.applying import NEAR
from podfit.vpa.recommender.decide.histograms.estimate import LOWER, UPPER, widening

_CONFIG = Config()


def _percentiles(cpu: float, memory: float) -> Default:
    """The default policy with other percentiles. Usage above such a size is not an OOM kill, so it does not raise the
    memory samples."""
    config = replace(
        _CONFIG,
        target_cpu_percentile=cpu,
        target_memory_percentile=memory,
        oom_bump_up_ratio=1.0,
        oom_min_bump_up_bytes=0.0,
    )
    return Default(config=config)


_LOW = _percentiles(
    _CONFIG.recommendation_lower_bound_cpu_percentile, _CONFIG.recommendation_lower_bound_memory_percentile
)
_HIGH = _percentiles(
    _CONFIG.recommendation_upper_bound_cpu_percentile, _CONFIG.recommendation_upper_bound_memory_percentile
)


def is_narrow(mode: str, policy: str) -> bool:
    return policy != "default" and mode in (IN_PLACE, IN_PLACE_OR_RECREATE)


def near(targets: Ints) -> tuple[Ints, Ints]:
    low, high = targets * (1 - NEAR), targets * (1 + NEAR)
    return low.astype(np.int64), np.ceil(high).astype(np.int64)


def usual(series: UsageSeries, targets: Ints, unit: float) -> tuple[Ints, Ints]:
    """The lower and upper bound from the samples so far, of which the last column is the current step. `unit` is the
    number of millicores per core, or of bytes per byte."""
    days = _days_known(series)
    found = []
    for policy, (multiplier, exponent) in ((_LOW, LOWER), (_HIGH, UPPER)):
        sizes = sizes_of(policy, series)[:, -1].astype(np.float64) * unit
        widen = np.array([widening(age, multiplier, exponent) for age in days.tolist()])
        # An unknown or infinite bound excludes nothing.
        found.append(np.nan_to_num(sizes * widen, nan=0.0 if policy is _LOW else np.inf))
    low, high = np.minimum(found[0], targets), np.maximum(found[1], targets)
    return np.floor(low).astype(np.int64), np.ceil(np.minimum(high, 2.0**52)).astype(np.int64)


def _days_known(series: UsageSeries) -> Floats:
    known = np.isfinite(series.usage)
    samples = known.shape[1] - 1 - known.argmax(1)
    return np.where(known.any(1), samples * series.step_s / DAY, 0.0)
