"""Series that count in plain numbers render as the client library's own would."""

from __future__ import annotations

from typing import Any

import prometheus_client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from podfit.kit import series

BUCKETS = (0.005, 0.1, 1, 2.5, 10)
AMOUNTS = st.one_of(st.sampled_from((0, 0.1, 1, 2.5, 10)), st.floats(0, 100, allow_nan=False))
LABELS = st.tuples(st.sampled_from(("a", "b")), st.sampled_from(("", 'x"y', "ä")))
STEPS = st.lists(st.tuples(st.sampled_from(("inc", "dec", "set", "count", "observe", "bare")), LABELS, AMOUNTS))


def shown(library: Any, steps: list[tuple[str, tuple[str, str], float]]) -> list[str]:
    registry = CollectorRegistry()
    names = ("one", "other")
    counter = library.Counter("requests", "Requests.", names, registry=registry)
    gauge = library.Gauge("open", "Open now.", names, registry=registry)
    histogram = library.Histogram("seconds", "Seconds.", names, buckets=BUCKETS, registry=registry)
    bare = library.Counter("all_total", "All.", registry=registry)
    for word, labels, amount in steps:
        match word:
            case "inc" | "dec" | "set":
                getattr(gauge.labels(*labels), word)(amount)
            case "count":
                counter.labels(*labels).inc(amount)
            case "observe":
                histogram.labels(*labels).observe(amount)
            case _:
                bare.inc()
    return generate_latest(registry).decode().splitlines()


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_the_text_is_that_of_the_library(steps: list[tuple[str, tuple[str, str], float]]) -> None:
    assert shown(series, steps) == shown(prometheus_client, steps)
