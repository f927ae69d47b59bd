"""Bits of metrics that all three components share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Histogram

from podfit.kit.clock import Clock

BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 180.0, 300.0)


class StepTimer:
    """How long each step of a pass takes, and all of them together."""

    def __init__(self, registry: CollectorRegistry, prefix: str, clock: Clock) -> None:
        self._clock = clock
        self._seconds = Histogram(
            f"{prefix}_execution_latency_seconds",
            "Time spent in various parts of the loop.",
            ("step",),
            buckets=BUCKETS,
            registry=registry,
        )

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        started = self._clock.monotonic()
        try:
            yield
        finally:
            self._seconds.labels(name).observe(self._clock.monotonic() - started)


def size_class(pods: int) -> str:
    """floor(log2) of a number of pods, as upstream labels autoscalers by size; at most 20."""
    return str(min(20, int(math.log2(pods)))) if pods > 0 else "0"
