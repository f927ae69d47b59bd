"""Converts histograms and aggregates to and from checkpoint objects, compatible with upstream's.

Weights are stored relative to the heaviest bucket, as whole numbers up to 10000; the total restores their scale.
"""

from __future__ import annotations

import math

from podfit.api.objects import Object
from podfit.vpa.model.numbers import go_float
from podfit.vpa.model.times import from_rfc3339, to_rfc3339
from podfit.vpa.recommender.decide.histograms.histogram import DecayingHistogram, Histogram

MAX_WEIGHT = 10000
VERSION = "v3"


class CheckpointError(ValueError):
    """The checkpoint cannot be used; no part of it was loaded."""


def save_histogram(histogram: Histogram) -> Object:
    saved: Object = {"referenceTimestamp": None}
    if isinstance(histogram, DecayingHistogram):
        saved["referenceTimestamp"] = to_rfc3339(histogram.reference)
    inside = range(histogram.low, histogram.high + 1)
    heaviest = max((histogram.weights[bucket] for bucket in inside), default=0.0)
    weights = {}
    if heaviest > 0:
        ratio = MAX_WEIGHT / heaviest
        for bucket in inside:
            weight = math.floor(histogram.weights[bucket] * ratio + 0.5)
            if weight > 0:
                weights[str(bucket)] = weight
    if weights:
        saved["bucketWeights"] = weights
    if histogram.total:
        saved["totalWeight"] = histogram.total
    return saved


def load_histogram(histogram: Histogram, saved: Object) -> None:
    """Adds the saved weights; a checkpoint with any invalid number is rejected completely."""
    total = saved.get("totalWeight") or 0.0
    if isinstance(total, bool) or not isinstance(total, (int, float)) or not math.isfinite(total):
        raise CheckpointError("cannot load checkpoint with a total weight that is no number")
    if total < 0:
        raise CheckpointError(f"cannot load checkpoint with negative weight {go_float(float(total))}")
    weights = _weights_of(saved.get("bucketWeights") or {}, histogram.scheme.count)
    try:
        reference = from_rfc3339(saved.get("referenceTimestamp"))
    except (ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"checkpoint has a bad reference timestamp: {error}") from error
    histogram.load_weights(weights, float(total))
    if isinstance(histogram, DecayingHistogram):
        histogram.reference = reference


def _weights_of(saved: Object, count: int) -> dict[int, float]:
    weights = {}
    for name, weight in saved.items():
        try:
            bucket = int(name)
        except ValueError:
            raise CheckpointError(f"checkpoint has bucket {name!r} that is no number") from None
        if isinstance(weight, bool) or not isinstance(weight, int) or not 0 <= weight < 2**32:
            raise CheckpointError(f"checkpoint has bucket {bucket} with weight {weight!r} that is no uint32")
        if bucket >= count:
            raise CheckpointError(f"checkpoint has bucket {bucket} that is exceeding histogram buckets {count}")
        if bucket < 0:
            raise CheckpointError(f"checkpoint has a negative bucket {bucket}")
        weights[bucket] = float(weight)
    return weights
