"""Containers that use up their CPU limit."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.autoscalers import vpa

from podfit.api.selectors import LabelSelector
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.evidence.starvation import (
    GAP_S,
    SUSTAINED_S,
    LimitSample,
    Need,
    Starvation,
    Starved,
    raised,
)
from podfit.vpa.recommender.decide.histograms.cluster import AggregateKey, ClusterState, Vpa
from podfit.vpa.recommender.decide.histograms.estimate import Estimate

KEY = AggregateKey("ns", "app", "app=web")
SIZE = Estimate({"cpu": 100, "memory": 5}, {"cpu": 50, "memory": 4}, {"cpu": 200, "memory": 6})


def at_limit(instant: float, limit: int = 200, handle: int = 0) -> LimitSample:
    return LimitSample(handle, instant, limit, limit, limit, at_limit=True)


def throttled(instant: float, given: int = 100) -> LimitSample:
    return LimitSample(0, instant, given // 2, 2 * given, given, throttled=True)


def quiet(instant: float, used: int = 50, given: int = 100) -> LimitSample:
    return LimitSample(0, instant, used, 10 * given, given)


def starved(*samples: LimitSample) -> Starved:
    made = Starved()
    for sample in samples:
        made.note(sample)
    return made


def scaler(**spec: Any) -> Vpa:
    cluster = ClusterState(Config())
    made = cluster.add_vpa(vpa(**spec), LabelSelector.parse("app=web"))
    cluster.add_pod(("ns", "p"), {"app": "web"}, "Running")
    cluster.add_container(("ns", "p"), "app")
    return made


def test_a_limit_that_is_used_up_is_a_lower_bound_until_it_is_used_up_no_longer() -> None:
    assert starved(at_limit(0.0)).lower_bound(sustained=False) == 200
    assert starved(at_limit(0.0), quiet(60.0)).lower_bound(sustained=False) == 0


def test_only_after_a_while_it_is_sustained() -> None:
    samples = [at_limit(60.0 * minute) for minute in range(5)]
    assert starved(*samples[:4]).lower_bound(sustained=True) == 0
    assert starved(*samples).lower_bound(sustained=True) == 200
    assert SUSTAINED_S == 60.0 * 4


def test_a_container_that_reports_no_more_is_starved_no_longer() -> None:
    one = starved(at_limit(0.0, handle=1), quiet(GAP_S))
    assert one.lower_bound(sustained=False) == 200
    one.note(LimitSample(2, GAP_S + 1, 500, 500, 500, at_limit=True))
    assert one.lower_bound(sustained=False) == 500


def test_what_was_used_lately_counts_once_a_limit_was_used_up() -> None:
    usual = [quiet(60.0 * minute, used=100 + minute) for minute in range(10)]
    assert starved(*usual).used_lately(0.9) == 0
    assert starved(at_limit(0.0), *usual).used_lately(0.9) == 108
    assert starved(at_limit(0.0), *usual, quiet(7200.0, used=7)).used_lately(0.9) == 7


def test_throttled_bursts_raise_the_request_until_one_suffices() -> None:
    one = starved(*[throttled(60.0 * minute) for minute in range(5)])
    assert one.bursts() == 100 and one.sufficed == 0
    one.note(quiet(300.0, given=150))
    assert one.bursts() == 0 and one.sufficed == 150
    one.note(quiet(360.0, given=120))
    assert one.sufficed == 120


def test_needs_are_those_of_the_containers_of_an_autoscaler() -> None:
    starvation = Starvation(Config())
    assert not starvation.note(KEY, quiet(0.0)) and not starvation
    assert starvation.note(KEY, at_limit(0.0)) and starvation
    assert starvation.needs(scaler(), sustained=False) == {"app": Need(lower_bound=200)}
    assert starvation.needs(scaler(), sustained=True) == {}
    assert starvation.begun_after(-1.0) and not starvation.begun_after(0.0)


def test_bursts_do_not_count_where_limits_stay() -> None:
    starvation = Starvation(Config())
    for minute in range(5):
        starvation.note(KEY, throttled(60.0 * minute))
    requests_only = {"containerPolicies": [{"containerName": "app", "controlledValues": "RequestsOnly"}]}
    assert starvation.needs(scaler(), sustained=False) == {"app": Need(bursts=100)}
    assert starvation.needs(scaler(resourcePolicy=requests_only), sustained=False) == {}


def test_what_is_gone_or_long_over_is_forgotten() -> None:
    gone, over = Starvation(Config()), Starvation(Config())
    gone.note(KEY, at_limit(0.0))
    gone.forget(lambda key: False)
    over.note(KEY, at_limit(0.0))
    over.forget(lambda key: True)
    assert not gone and over
    over.note(KEY, quiet(86401.0))
    over.forget(lambda key: True)
    assert not over


@pytest.mark.parametrize(
    ("need", "target", "lower"),
    [
        (Need(), 100, 50),
        (Need(lower_bound=200), 1035, 230),
        (Need(bursts=100), 172, 115),
        (Need(used_lately=300), 345, 50),
        (Need(sufficed=150), 150, 50),
    ],
)
def test_an_estimate_is_raised_to_the_need(need: Need, target: int, lower: int) -> None:
    made = raised(SIZE, need, Config())
    assert (made.target["cpu"], made.lower["cpu"], made.upper["cpu"]) == (target, lower, max(200, target))
    assert made.target["memory"] == 5


def test_an_estimate_without_cpu_stays() -> None:
    memory = Estimate({"memory": 5}, {"memory": 4}, {"memory": 6})
    assert raised(memory, Need(lower_bound=200), Config()) is memory
