"""Histograms in the form of checkpoint objects."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.vpa.recommender.decide.checkpoint import MAX_WEIGHT, CheckpointError, load_histogram, save_histogram
from podfit.vpa.recommender.decide.histograms import buckets
from podfit.vpa.recommender.decide.histograms.histogram import DecayingHistogram, Histogram

START = 1_700_006_400.0
HALF_LIFE = 86400.0


def histogram(*cores: float) -> DecayingHistogram:
    made = DecayingHistogram(buckets.CPU, HALF_LIFE)
    for amount in cores:
        made.add(amount, 1.0, START)
    return made


def test_weights_are_whole_numbers_relative_to_the_heaviest_bucket() -> None:
    saved = save_histogram(histogram(0.1, 0.1, 0.1, 0.1, 4.0))
    assert sorted(saved["bucketWeights"].values()) == [MAX_WEIGHT // 4, MAX_WEIGHT]
    assert saved["referenceTimestamp"] == "2023-11-15T00:00:00Z"


def test_an_empty_histogram_saves_no_weights() -> None:
    assert save_histogram(DecayingHistogram(buckets.CPU, HALF_LIFE)) == {"referenceTimestamp": None}


def test_saved_histograms_have_the_same_percentiles() -> None:
    before, after = histogram(0.1, 0.2, 0.3, 4.0), histogram()
    load_histogram(after, save_histogram(before))
    assert [after.percentile(part) for part in (0.5, 0.95)] == [before.percentile(part) for part in (0.5, 0.95)]
    assert after.total == pytest.approx(before.total) and after.reference == before.reference


@pytest.mark.parametrize(
    ("saved", "words"),
    [
        ({"totalWeight": -1}, "negative weight -1"),
        ({"totalWeight": True}, "a total weight that is no number"),
        ({"totalWeight": float("inf")}, "a total weight that is no number"),
        ({"bucketWeights": {"x": 1}}, "bucket 'x' that is no number"),
        ({"bucketWeights": {"1": -1}}, "bucket 1 with weight -1 that is no uint32"),
        ({"bucketWeights": {"1": 2**32}}, "that is no uint32"),
        ({"bucketWeights": {"176": 1}}, "bucket 176 that is exceeding histogram buckets 176"),
        ({"bucketWeights": {"-1": 1}}, "a negative bucket -1"),
        ({"referenceTimestamp": "soon"}, "a bad reference timestamp"),
    ],
)
def test_a_wrong_number_refuses_all_of_a_checkpoint(saved: dict[str, Any], words: str) -> None:
    loaded: Histogram = histogram()
    with pytest.raises(CheckpointError, match=words):
        load_histogram(loaded, {"bucketWeights": {"1": 1}, "totalWeight": 1.0, **saved})
    assert loaded.empty and loaded.total == 0
