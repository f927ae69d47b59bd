"""The replicas of a controller, and how many of them may be disrupted at once."""

from __future__ import annotations

import pytest
from tests.support.autoscalers import DEFERRED, pod, vpa

from podfit.api.objects import Object
from podfit.vpa.updater.decide.config import UpdateConfig
from podfit.vpa.updater.decide.groups import Group, creator_of, grouped, required_replicas


def pods(count: int) -> list[Object]:
    return [pod(f"p{number}") for number in range(count)]


def group(
    replicas: list[Object], configured: int | None, config: UpdateConfig | None = None, **spec: object
) -> Group | None:
    groups, _ = grouped(replicas, vpa(**spec), lambda _: configured, config or UpdateConfig())
    return groups.get(creator_of(replicas[0]))


@pytest.mark.parametrize(
    ("configured", "running", "tolerance", "disturbed", "disruptable"),
    [
        (4, 4, 2, 0, True),
        (4, 4, 2, 1, True),
        (4, 4, 2, 2, False),
        (4, 2, 2, 0, False),
        (1, 1, 0, 0, True),
        (1, 1, 0, 1, False),
    ],
)
def test_a_replica_may_go_while_more_run_than_the_tolerance_keeps(
    configured: int, running: int, tolerance: int, disturbed: int, disruptable: bool
) -> None:
    made = Group(configured, tolerance, configured - running, running, 0, evicted=disturbed)
    assert made.disruptable is disruptable


def test_pods_are_counted_by_what_they_do() -> None:
    replicas = [pod("a"), pod("b", phase="Pending"), pod("c", conditions=[DEFERRED]), pod("d")]
    made = group(replicas, 4)
    assert made is not None
    assert (made.configured, made.tolerance, made.pending, made.running, made.resizing) == (4, 2, 1, 3, 1)


def test_a_controller_with_too_few_replicas_is_not_changed() -> None:
    assert group(pods(1), 1) is None
    assert group(pods(1), 1, updatePolicy={"minReplicas": 1}) is not None


def test_too_few_replicas_may_be_resized_where_the_disruption_budget_is_skipped() -> None:
    made = group(pods(1), 1, UpdateConfig(in_place_skip_disruption_budget=True))
    assert made is not None and made.below_minimum


def test_a_controller_that_cannot_be_read_is_not_changed() -> None:
    assert group(pods(3), None) is None


def test_the_autoscalers_own_minimum_wins() -> None:
    assert required_replicas(vpa(), UpdateConfig(min_replicas=3)) == 3
    assert required_replicas(vpa(updatePolicy={"minReplicas": 0}), UpdateConfig(min_replicas=3)) == 0


def test_pods_without_a_controller_are_not_recreated() -> None:
    selector = {"targetRef": None, "selector": {"matchLabels": {"a": "b"}}}
    made = group([pod("a", owner=""), pod("b", owner="")], 0, **selector)
    assert made is not None and not made.recreated and made.running == 2
