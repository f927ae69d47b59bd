"""Evictions for resizes that stay deferred: after which deadline, and of which pods."""

from __future__ import annotations

from typing import Any, cast

from tests.support.scheduling import RecordedEvents, RecordedWrites, node

from podfit.api.objects import Object
from podfit.api.status import ApiError
from podfit.client import Cache, Client, EventRecorder
from podfit.kit.clock import FakeClock, rfc3339
from podfit.kit.concurrency.tasks import Tasks
from podfit.scheduler.act import SchedulerWrites
from podfit.scheduler.config import SchedulerConfig
from podfit.scheduler.decide.board import Board
from podfit.scheduler.decide.queue import PodQueue
from podfit.scheduler.making_room import MakingRoom
from podfit.scheduler.metrics import SchedulerMetrics
from podfit.scheduler.observe import Observer

BUDGET = ApiError(429, "TooManyRequests", "budget")


class Making:
    """A node of 4 CPUs with pods; the resize of the first one is deferred."""

    def __init__(self, policy: str = "preempt", **refusals: Exception) -> None:
        self.clock, self.writes, self.events = FakeClock(), RecordedWrites(**refusals), RecordedEvents()
        self.metrics, board = SchedulerMetrics("default-scheduler"), Board(seed=1)
        observer = Observer(board, PodQueue(), self.clock, "default-scheduler", lambda: None, lambda namespace: ())
        self.hands = SchedulerWrites(cast(Client, self.writes), cast(EventRecorder, self.events), self.clock, "s")
        config = SchedulerConfig(deferred_resize_policy=policy, deferred_resize_deadline_s=60.0)
        budgets = cast(Cache, ())
        self.room = MakingRoom(config, board, observer, budgets, self.hands, self.metrics, self.clock)
        observer.node(None, node("n1"))
        for item in (self.pod("vip", 3000, 10, given=500, deferred=True), self.pod("low", 3000)):
            observer.pod(None, item)

    def pod(self, name: str, milli: int, priority: int = 0, given: int = 0, deferred: bool = False) -> Object:
        has = {"cpu": f"{given or milli}m"}
        since = rfc3339(self.clock.now())
        waiting = {"type": "PodResizePending", "status": "True", "reason": "Deferred", "lastTransitionTime": since}
        resources = {"requests": {"cpu": f"{milli}m"}}
        return {
            "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": {}},
            "spec": {"containers": [{"name": "c", "resources": resources}], "priority": priority, "nodeName": "n1"},
            "status": {
                "phase": "Running",
                "conditions": [waiting] if deferred else [],
                "containerStatuses": [{"name": "c", "resources": {"requests": has}, "allocatedResources": has}],
            },
        }

    async def check(self, later_s: float) -> list[tuple[str, str]]:
        """The scheduler's writes for the deferred resize."""
        await self.clock.advance(later_s)
        self.writes.written.clear()
        self.room.check()
        tasks = Tasks()
        self.hands.start(tasks, 1, 1)
        await self.hands.idle()
        await tasks.stop()
        return self.writes.names

    @property
    def evicted(self) -> Any:
        return self.metrics.deferred_evictions


async def test_no_pod_is_preempted_before_the_deadline_and_the_lowest_priority_goes_first() -> None:
    making = Making()
    assert await making.check(59.0) == []
    assert await making.check(2.0) == [("eviction", "low")]
    reasons = [(name, reason) for name, reason, _ in making.events.events]
    assert reasons == [("low", "Preempted"), ("vip", "ResizePreempting")]


async def test_between_two_tries_victims_have_time_to_go() -> None:
    making = Making()
    assert await making.check(61.0) == [("eviction", "low")]
    assert await making.check(9.0) == []
    assert await making.check(2.0) == [("eviction", "low")]


async def test_without_the_policy_resizes_wait() -> None:
    assert await Making("wait").check(1000.0) == []


async def test_a_budget_that_says_no_is_reported() -> None:
    making = Making(eviction=BUDGET)
    assert await making.check(61.0) == []
    [(name, reason, message)] = making.events.events
    assert (name, reason) == ("vip", "ResizePreemptionFailed")
    assert message == "Disruption budgets protect ns/low on node n1; the resize stays deferred"
