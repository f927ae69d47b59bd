"""The scheduler's writes: bindings, failures, preemptions, evictions, and Events once there is time for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from tests.support.scheduling import RecordedEvents, RecordedWrites, pod

from podfit.api.objects import Object
from podfit.api.status import ApiError
from podfit.client import Client, EventRecorder
from podfit.kit.clock import FakeClock, rfc3339
from podfit.kit.concurrency.tasks import Tasks
from podfit.scheduler.act import SchedulerWrites

GONE, CONFLICT, BUDGET, BROKEN = (ApiError(code, "Reason", "why") for code in (404, 409, 429, 500))


class Acting:
    def __init__(self, **refusals: Exception) -> None:
        self.writes, self.events, self.clock = RecordedWrites(**refusals), RecordedEvents(), FakeClock()
        client, recorder = cast(Client, self.writes), cast(EventRecorder, self.events)
        self.hands = SchedulerWrites(client, recorder, self.clock, "default-scheduler")

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Returns when everything is written."""
        tasks = Tasks()
        self.hands.start(tasks, 2, 2)
        try:
            yield
            await self.hands.idle()
        finally:
            await tasks.stop()


def refused(reason: str, message: str, since: str = "then") -> Object:
    row = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message, "lastTransitionTime": since}
    return {**pod("p"), "status": {"conditions": [row], "nominatedNodeName": "n1"}}


async def test_a_binding_names_the_pod_by_its_uid_and_an_event_says_where() -> None:
    acting = Acting()
    async with acting.working():
        acting.hands.bind(lambda: acting.hands.bind_pod(pod("p"), "n1"))
    [(what, name, body)] = acting.writes.written
    assert (what, name, body["target"]["name"], body["metadata"]["uid"]) == ("binding", "p", "n1", "uid-p")
    assert acting.events.events == [("p", "Scheduled", "Successfully assigned ns/p to n1")]


async def test_a_write_that_fails_does_not_hold_up_the_others() -> None:
    acting = Acting(binding=BROKEN)

    async def broken() -> None:
        raise ZeroDivisionError

    async with acting.working():
        for work in (broken, lambda: acting.hands.bind_pod(pod("p"), "n1"), broken):
            acting.hands.write(cast(Callable[[], Awaitable[None]], work))
        acting.hands.write(lambda: acting.hands.clear_nomination(pod("q")))
    assert acting.writes.names == [("patch_status", "q")]


@pytest.mark.parametrize(
    ("before", "nominated", "written"),
    [
        (pod("p"), None, True),
        (refused("Unschedulable", "no room"), None, False),
        (refused("Unschedulable", "no room"), "n1", False),
        (refused("Unschedulable", "no room"), "", True),
        (refused("Unschedulable", "other"), None, True),
    ],
)
async def test_a_refusal_is_written_only_where_it_says_something_new(
    before: Object, nominated: str | None, written: bool
) -> None:
    acting = Acting()
    await acting.hands.report_refusal(before, "Unschedulable", "no room", nominated)
    assert bool(acting.writes.written) is written


async def test_the_time_of_a_refusal_is_that_of_the_first() -> None:
    acting = Acting()
    for before in (pod("p"), refused("Unschedulable", "other")):
        await acting.hands.report_refusal(before, "Unschedulable", "no room", None)
    times = [body["status"]["conditions"][0]["lastTransitionTime"] for _, _, body in acting.writes.written]
    assert times == [rfc3339(acting.clock.now()), "then"]


async def test_a_victim_is_marked_and_then_deleted_by_its_uid() -> None:
    acting = Acting()
    async with acting.working():
        await acting.hands.preempt(pod("victim"), pod("p"), "n1")
    assert acting.writes.names == [("patch_status", "victim"), ("delete", "victim")]
    (_, _, status), (_, _, options) = acting.writes.written
    assert status["status"]["conditions"][0]["reason"] == "PreemptionByScheduler"
    assert options == {"preconditions": {"uid": "uid-victim"}}
    assert acting.events.events == [("victim", "Preempted", "Preempted by pod uid-p on node n1")]


async def test_a_victim_that_is_leaving_or_gone_is_left_alone() -> None:
    leaving = pod("victim")
    leaving["metadata"]["deletionTimestamp"] = "now"
    acting, gone = Acting(), Acting(delete=GONE)
    await acting.hands.preempt(leaving, pod("p"), "n1")
    async with gone.working():
        await gone.hands.preempt(pod("victim"), pod("p"), "n1")
    assert acting.writes.written == [] and gone.events.events == []
    with pytest.raises(ApiError):
        await Acting(delete=BROKEN).hands.preempt(pod("victim"), pod("p"), "n1")


@pytest.mark.parametrize(
    ("refusals", "done"),
    [({}, True), ({"eviction": GONE}, True), ({"eviction": CONFLICT}, True), ({"eviction": BUDGET}, False)],
)
async def test_an_eviction_answers_whether_the_pod_goes(refusals: dict[str, Any], done: bool) -> None:
    assert await Acting(**refusals).hands.evict(pod("victim"), "why") is done


async def test_a_status_of_a_pod_that_was_deleted_is_not_written() -> None:
    await Acting(patch_status=GONE).hands.clear_nomination(pod("p"))
    with pytest.raises(ApiError):
        await Acting(patch_status=BROKEN).hands.clear_nomination(pod("p"))


async def test_events_wait_while_pods_are_due() -> None:
    acting = Acting()
    hands = SchedulerWrites(
        cast(Client, acting.writes), cast(EventRecorder, acting.events), acting.clock, "s", busy=lambda: True
    )
    hands.emit(pod("p"), "Warning", "FailedScheduling", "no room")
    acting.hands = hands
    async with acting.working():
        assert acting.events.events == []
    assert acting.events.events == [("p", "FailedScheduling", "no room")]
