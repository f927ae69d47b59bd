"""Series with declared label values exist before the first event."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from podfit.kit.series import Counter, Gauge, Histogram


def text(registry: CollectorRegistry) -> list[str]:
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def test_every_combination_of_declared_values_starts_at_zero() -> None:
    registry = CollectorRegistry()
    counter = Counter("c_total", "C.", ["one", "other"], registry=registry).with_values(one="ab", other="x")
    counter.labels("a", "x").inc(2)
    assert text(registry) == ['c_total{one="a",other="x"} 2.0', 'c_total{one="b",other="x"} 0.0']


def test_a_histogram_starts_with_all_its_buckets() -> None:
    registry = CollectorRegistry()
    Histogram("h", "H.", ["ok"], buckets=(1,), registry=registry).with_values(ok=("true",))
    buckets = ['h_bucket{le="1.0",ok="true"} 0.0', 'h_bucket{le="+Inf",ok="true"} 0.0']
    assert text(registry) == [*buckets, 'h_count{ok="true"} 0.0', 'h_sum{ok="true"} 0.0']


def test_a_value_that_was_not_declared_is_shown_once_it_is_set() -> None:
    registry = CollectorRegistry()
    gauge = Gauge("g", "G.", ["who"], registry=registry).with_values(who=("me",))
    gauge.labels("you").set(3)
    assert text(registry) == ['g{who="you"} 3.0', 'g{who="me"} 0.0']


def test_reading_the_zeros_leaves_nothing_behind() -> None:
    registry = CollectorRegistry()
    counter = Counter("c_total", "C.", ["one"], registry=registry).with_values(one="ab")
    generate_latest(registry)
    assert not counter._metrics


def test_labels_with_some_values_declared_begin_when_they_are_counted() -> None:
    registry = CollectorRegistry()
    Counter("c_total", "C.", ["verb", "name"], registry=registry).may_have(verb=("get",))
    assert text(registry) == []
