"""For the autoscaler, a meter's numbers are equivalent to the text of metrics.k8s.io."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.numbers import NodeReading, Numbers, Reading
from podfit.api.objects import Object
from podfit.meter.api import Meta, _pod_metrics
from podfit.meter.rates import NodeRates
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState
from podfit.vpa.recommender.intake.usage import Scraped, counted, in_parts, scraped

NOW = 1_700_000_000.0
_keys = st.tuples(st.sampled_from("nm"), st.sampled_from("pqr"), st.sampled_from("abc"))
_amounts = st.one_of(st.floats(0.0, 1e10), st.integers(0, 10**10).map(float), st.floats(0.0, 1e-6))
_times = st.one_of(st.floats(NOW - 100.0, NOW + 100.0), st.floats(NOW + 500.0, NOW + 700.0))
_periods = st.integers(0, 1000).flatmap(lambda total: st.tuples(st.just(total), st.integers(0, total)))
_readings = st.dictionaries(
    _keys, st.tuples(_times, _amounts, _amounts, st.just(0.0), _periods).map(lambda row: (*row[:4], *row[4]))
)


def reported(readings: dict[Any, tuple[float, ...]]) -> NodeRates:
    rates = NodeRates(fresh_s=0.0)
    rates.take(NodeReading(None, {key: Reading(at - 15.0, 0.0, 0.0) for key, (at, *_) in readings.items()}))
    rates.take(NodeReading(None, {key: Reading(*reading) for key, reading in readings.items()}))
    return rates


def known_to(readings: dict[Any, Any]) -> ClusterState:
    """All of them except one pod, and one container of another pod."""
    cluster = ClusterState(Config(), Fleet(Config()))
    for namespace, pod, container in readings:
        if pod != "r":
            cluster.add_pod((namespace, pod), {}, "Running")
            if (pod, container) != ("q", "c"):
                cluster.add_container((namespace, pod), container)
    return cluster


def samples(found: Scraped) -> dict[int, tuple[Any, ...]]:
    numbers = found.instants, found.cpu, found.memory, found.throttled
    columns = zip(found.handles, found.pods, found.names, *numbers, strict=True)
    return {int(handle): (pod.id, name, *map(float, row)) for handle, pod, name, *row in columns}


@given(_readings)
def test_numbers_count_as_their_text(readings: dict[Any, tuple[float, ...]]) -> None:
    rates, cluster = reported(readings), known_to(readings)
    numbers, items = Numbers(), list[Object]()
    for (namespace, pod), keys in rates.placed.items():
        rates.collect(keys, numbers)
        items.append(_pod_metrics(Meta(pod, namespace), rates.pod(namespace, pod)))
    assert samples(counted(numbers, cluster, NOW)) == samples(scraped(items, cluster, NOW))


def test_pods_that_are_gone_are_not_counted_and_parts_make_up_the_whole() -> None:
    keys = [("n", f"p{number}", "a") for number in range(1200)]
    numbers, cluster = Numbers(), ClusterState(Config(), Fleet(Config()))
    for key in keys:
        numbers.add(key, NOW, 0.5, 1024.0)
        cluster.add_pod(key[:2], {}, "Running")
        cluster.add_container(key[:2], "a")
    parts = list(in_parts(numbers, cluster, NOW, {("n", "p7"), ("n", "p1100")}))
    assert len(parts) == 3
    named = [pod.id[1] for part in parts for pod in part.pods]
    assert named == [f"p{number}" for number in range(1200) if number not in (7, 1100)]
