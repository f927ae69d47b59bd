"""A token bucket."""

from __future__ import annotations

from podfit.kit.clock import FakeClock
from podfit.vpa.serve.bucket import Bucket


def test_a_bucket_refills_with_time() -> None:
    clock = FakeClock()
    bucket = Bucket(0.05, 3, clock)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    clock._mono += 40
    assert [bucket.take() for _ in range(3)] == [True, True, False]
