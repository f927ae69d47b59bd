"""The borders of buckets, and the bucket of a value."""

from __future__ import annotations

import pytest

from podfit.vpa.recommender.decide.histograms.buckets import CPU, EPSILON, MEMORY, exponential, linear

TENS = linear(100.0, 10.0, EPSILON)
DOUBLING = exponential(100.0, 10.0, 2.0, EPSILON)


@pytest.mark.parametrize(("value", "bucket"), [(-5.0, 0), (0.0, 0), (9.9, 0), (10.0, 1), (1e9, 10), (1e30, 0)])
def test_linear_buckets_have_one_size(value: float, bucket: int) -> None:
    assert TENS.find(value) == bucket


@pytest.mark.parametrize(("value", "bucket"), [(-5.0, 0), (9.9, 0), (10.0, 1), (29.9, 1), (30.0, 2), (1e9, 4)])
def test_exponential_buckets_grow_by_their_ratio(value: float, bucket: int) -> None:
    assert DOUBLING.starts == (0.0, 10.0, 30.0, 70.0, 150.0)
    assert DOUBLING.find(value) == bucket


def test_the_last_bucket_ends_where_it_begins() -> None:
    assert (TENS.end(0), TENS.end(9), TENS.end(10)) == (10.0, 100.0, 100.0)


def test_cpu_and_memory_have_176_buckets_each_and_grow_by_a_twentieth() -> None:
    assert (CPU.count, MEMORY.count) == (176, 176)
    assert CPU.starts[1] == 0.01 and MEMORY.starts[1] == 1e7
    assert all(CPU.find(start * 1.0001) == number for number, start in enumerate(CPU.starts) if number)


@pytest.mark.parametrize("bucket", [1, 2, 60, 175])
def test_the_first_whole_value_of_a_bucket_is_exact(bucket: int) -> None:
    first = CPU.first_whole_value(bucket, 1000.0)
    assert CPU.find(first / 1000.0) >= bucket > CPU.find((first - 1) / 1000.0)


def test_sizes_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="must both be positive"):
        linear(0.0, 1.0, EPSILON)
    with pytest.raises(ValueError, match=r"ratio must be > 1\.0"):
        exponential(1.0, 1.0, 1.0, EPSILON)
