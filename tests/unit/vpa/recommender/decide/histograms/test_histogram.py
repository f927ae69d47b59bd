"""One decaying histogram."""

from __future__ import annotations

import pytest

from podfit.vpa.recommender.decide.histograms.buckets import CPU, MEMORY
from podfit.vpa.recommender.decide.histograms.histogram import MAX_DOUBLINGS, DecayingHistogram, Histogram, mean

START, HALF_LIFE = 1_700_006_400.0, 86400.0


def plain(*values: float) -> Histogram:
    made = Histogram(CPU)
    for value in values:
        made.add(value, 1.0)
    return made


def decaying(*samples: tuple[float, float]) -> DecayingHistogram:
    made = DecayingHistogram(CPU, HALF_LIFE)
    for value, instant in samples:
        made.add(value, 1.0, instant)
    return made


def test_a_percentile_is_the_end_of_the_bucket_where_it_is_reached() -> None:
    made = plain(*[0.1] * 9, 4.0)
    assert made.percentile(0.9) == CPU.end(CPU.find(0.1))
    assert made.percentile(0.95) == CPU.end(CPU.find(4.0))
    assert Histogram(CPU).percentile(0.9) == 0.0


def test_a_sample_that_is_taken_out_leaves_the_others() -> None:
    made = plain(0.1, 4.0)
    made.subtract(4.0, 1.0)
    assert made.equals(plain(0.1))
    made.subtract(0.1, 1.0)
    assert made.empty and made.total == 0.0


def test_negative_weights_are_refused() -> None:
    for change in (plain().add, plain().subtract):
        with pytest.raises(ValueError, match="must be non-negative"):
            change(1.0, -1.0)


def test_merging_adds_and_other_borders_are_refused() -> None:
    made = plain(0.1)
    made.merge(plain(4.0))
    assert made.equals(plain(0.1, 4.0))
    with pytest.raises(ValueError, match="different options"):
        made.merge(Histogram(MEMORY))


def test_a_sample_is_worth_half_as_much_after_a_half_life() -> None:
    made = decaying((0.1, START), (4.0, START + HALF_LIFE))
    old, new = made.weights[CPU.find(0.1)], made.weights[CPU.find(4.0)]
    assert new == pytest.approx(2 * old)


def test_moving_the_reference_changes_no_percentile() -> None:
    samples = [(0.1, START), (1.0, START + HALF_LIFE / 2), (4.0, START + HALF_LIFE)]
    here, moved = decaying(*samples), decaying(*samples)
    moved.move_reference(START + 10 * HALF_LIFE)
    assert moved.reference != here.reference
    assert [moved.percentile(part) for part in (0.1, 0.5, 0.9)] == [here.percentile(part) for part in (0.1, 0.5, 0.9)]


def test_the_reference_moves_before_numbers_grow_too_large() -> None:
    made = decaying((0.1, START))
    later = START + (MAX_DOUBLINGS + 1) * HALF_LIFE
    made.add(4.0, 1.0, later)
    assert made.reference >= later - HALF_LIFE and made.total == pytest.approx(1.0, rel=1.0)


def test_merging_takes_the_newer_reference() -> None:
    old, new = decaying((0.1, START)), decaying((4.0, START))
    new.move_reference(START + 5 * HALF_LIFE)
    newer = new.reference
    old.merge(new)
    assert old.reference == newer
    with pytest.raises(ValueError, match="different half life"):
        old.merge(DecayingHistogram(CPU, 1.0))


def test_saved_weights_are_scaled_to_their_total() -> None:
    made = Histogram(CPU)
    made.load_weights({3: 1.0, 5: 3.0}, 8.0)
    assert (made.weights[3], made.weights[5], made.low, made.high) == (2.0, 6.0, 3, 5)
    made.load_weights({}, 8.0)
    assert made.total == 8.0


def test_the_mean_lies_in_the_middle_of_buckets() -> None:
    bucket = CPU.find(1.0)
    assert mean(plain(1.0, 1.0)) == pytest.approx((CPU.starts[bucket] + CPU.end(bucket)) / 2)
    assert mean(plain()) == 0.0


def test_people_see_a_table_of_percentiles() -> None:
    lines = plain(1.0).describe().splitlines()
    assert lines[1] == "%-tile\tvalue" and len(lines) == 23 and lines[0].startswith("minBucket: ")
