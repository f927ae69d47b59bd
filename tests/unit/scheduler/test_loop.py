"""A pass of the scheduler: which pods are tried, what is assumed at once, and the handling of failures."""

from __future__ import annotations

from typing import cast

import pytest
from tests.support.scheduling import RecordedWrites, node, pod

from podfit.api.objects import Object
from podfit.client import Client
from podfit.kit.clock import FakeClock
from podfit.scheduler import Scheduler, SchedulerConfig
from podfit.scheduler.decide.queue import ACTIVE, BACKOFF, WAITING


class Turning:
    def __init__(self, *nodes: Object, **config: int) -> None:
        self.clock = FakeClock()
        self.scheduler = Scheduler(cast(Client, RecordedWrites()), SchedulerConfig(seed=1, **config), self.clock)
        for candidate in nodes:
            self.scheduler.board.snapshot.put_node(candidate)

    def add(self, *pods: Object) -> None:
        for candidate in pods:
            self.scheduler.queue.add(candidate, self.clock.monotonic())

    def turn(self) -> dict[str, str]:
        """The pods that have a node afterwards, according to the scheduler."""
        self.scheduler.turn()
        return {name: item.node for (_, name), item in self.scheduler.board.snapshot.pods.items()}

    @property
    def counts(self) -> dict[str, int]:
        return {state: count for state, count in self.scheduler.queue.counts().items() if count}


def important(name: str, priority: int, cpu: str = "1") -> Object:
    return pod(name, cpu, priority=priority)


def test_a_decision_is_seen_by_the_next_one_before_it_is_written() -> None:
    turning = Turning(node("n1", "1"), node("n2", "1"))
    turning.add(pod("a"), pod("b"), pod("c"))
    assert sorted(turning.turn().values()) == ["n1", "n2"]
    assert turning.counts[WAITING] == 1


def test_the_most_important_pod_is_first() -> None:
    turning = Turning(node("n1", "1"))
    turning.add(important("low", 1), important("high", 9), important("middle", 5))
    assert turning.turn() == {"high": "n1"}


def test_waiting_pods_are_retried_when_a_node_comes_and_not_before() -> None:
    turning = Turning(node("n1", "1"))
    turning.add(pod("big", "2"))
    assert turning.turn() == turning.turn() == {}
    tried = turning.scheduler.queue.get(("ns", "big"))
    assert tried is not None and tried.attempts == 1
    turning.scheduler.board.snapshot.put_node(node("n2", "4"))
    assert turning.turn() == {"big": "n2"}


def test_a_turn_decides_a_number_of_pods_and_leaves_the_rest_due() -> None:
    turning = Turning(node("n1", "9"), turn_pods=2)
    turning.add(pod("a"), pod("b"), pod("c"))
    assert len(turning.turn()) == 2 and turning.counts[ACTIVE] == 1
    assert len(turning.turn()) == 3


def test_a_pod_that_cannot_be_understood_holds_up_no_other() -> None:
    turning = Turning(node("n1", "9"))
    broken = pod("broken", priority=9)
    broken["spec"]["containers"] = 7
    turning.add(broken, pod("fine"))
    assert turning.turn() == {"fine": "n1"}
    assert turning.counts == {BACKOFF: 1}


def test_room_freed_by_preemption_is_reserved_for_the_preempting_pod() -> None:
    turning = Turning(node("n1", "1"))
    turning.add(important("low", 1))
    turning.turn()
    turning.add(important("high", 9))
    assert turning.turn() == {"low": "n1"}
    assert ("ns", "high") in turning.scheduler.board.nominated


@pytest.mark.parametrize(("policy", "promised"), [("Never", False), ("PreemptLowerPriority", True)])
def test_a_pod_preempts_only_if_it_may(policy: str, promised: bool) -> None:
    turning = Turning(node("n1", "1"))
    turning.add(important("low", 1))
    turning.turn()
    turning.add(pod("high", "1", priority=9, preemptionPolicy=policy))
    turning.turn()
    assert bool(turning.scheduler.board.nominated) is promised
