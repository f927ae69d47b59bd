"""Recorded histograms: bucket borders, samples, decay, merges, percentiles and checkpoints."""

from __future__ import annotations

import math
from typing import Any

import pytest
from vpa_vectors import cases_where, close, difference

from podfit.vpa.model.times import to_rfc3339
from podfit.vpa.recommender.decide.checkpoint import CheckpointError, load_histogram, save_histogram
from podfit.vpa.recommender.decide.histograms import buckets
from podfit.vpa.recommender.decide.histograms.histogram import DecayingHistogram, Histogram


def scheme_of(options: Any) -> buckets.BucketScheme:
    if isinstance(options, str):
        return {"cpu": buckets.CPU, "memory": buckets.MEMORY}[options]
    if "linear" in options:
        return buckets.linear(*options["linear"])
    return buckets.exponential(*options["exponential"])


def build(described: dict[str, Any]) -> Histogram:
    scheme = scheme_of(described["options"])
    return (
        DecayingHistogram(scheme, described["halfLifeSeconds"])
        if described["kind"] == "decaying"
        else Histogram(scheme)
    )


def state_of(histogram: Histogram) -> dict[str, Any]:
    reference = None
    if isinstance(histogram, DecayingHistogram):
        reference = to_rfc3339(histogram.reference) or "0001-01-01T00:00:00Z"
    return {
        "minBucket": histogram.low,
        "maxBucket": histogram.high,
        "totalWeight": histogram.total,
        "referenceTimestamp": reference,
        "weights": {str(bucket): weight for bucket, weight in enumerate(histogram.weights) if weight},
        "empty": histogram.empty,
    }


def load(histogram: Histogram, saved: dict[str, Any]) -> Any:
    try:
        load_histogram(histogram, saved)
    except CheckpointError as error:
        return {"error": str(error)}
    return "ok"


def perform(histograms: dict[str, Histogram], op: list[Any]) -> Any:
    name, target, *rest = op
    histogram = histograms[target]
    match name:
        case "add":
            return histogram.add(*rest)
        case "sub":
            return histogram.subtract(*rest)
        case "merge":
            return histogram.merge(histograms[rest[0]])
        case "pct":
            return [histogram.percentile(fraction) for fraction in rest]
        case "state":
            return state_of(histogram)
        case "save":
            return save_histogram(histogram)
        case "load":
            return load(histogram, rest[0])
        case "saveload":
            saved = save_histogram(histogram)
            load_histogram(histograms[rest[0]], saved)
            return saved
        case "equals":
            return histogram.equals(histograms[rest[0]])
        case "string":
            return histogram.describe()
    raise AssertionError(name)


@pytest.mark.parametrize(
    "case", cases_where("histogram", lambda case: case.get("mode") == "options"), ids=lambda case: case["name"]
)
def test_buckets_lie_where_upstream_puts_them(case: dict[str, Any]) -> None:
    expect = case["expect"]
    if "error" in expect:
        with pytest.raises(ValueError, match=expect["error"].replace(".", r"\.")):
            scheme_of(case["options"])
        return
    scheme = scheme_of(case["options"])
    assert scheme.count == expect["numBuckets"]
    assert scheme.epsilon == expect["epsilon"]
    assert list(scheme.starts) == [float(start) for start in expect["starts"]]
    assert [scheme.find(value) for value in case["values"]] == expect["indices"]


@pytest.mark.parametrize("case", cases_where("histogram", lambda case: "ops" in case), ids=lambda case: case["name"])
def test_histogram_history_replays(case: dict[str, Any]) -> None:
    histograms = {name: build(described) for name, described in case["histograms"].items()}
    for op, expect in zip(case["ops"], case["expect"], strict=False):
        if isinstance(expect, dict) and "panic" in expect:
            with pytest.raises(ValueError, match=expect["panic"]):
                perform(histograms, op)
            return
        got = perform(histograms, op)
        if isinstance(expect, dict) and "decodeError" in expect:
            assert isinstance(got, dict) and "error" in got
        elif op[0] == "string":
            assert got.splitlines()[-22:] == expect.splitlines()[-22:]
        else:
            assert close(got, expect), (op, difference(got, expect))
            assert not isinstance(got, float) or math.isfinite(got)
