"""Events are sent by a few lanes: in order for each object, with repeats counted, and without delaying the
component that emits them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec
import pytest

from podfit.api.objects import Object
from podfit.client.recording.actions import ActionRecorder
from podfit.client.recording.events import WORKERS, EventRecorder
from podfit.client.rest import Client
from podfit.client.transport import ClientRequest, Reply, Stream, Unreachable
from podfit.kit.clock import FakeClock, rfc3339_micro


class Wire:
    """A transport that keeps what it sends; `gate` delays responses, `away` makes it unreachable."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, Object]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.away = False
        self.refusals: list[int] = []
        self.inside = self.most_inside = 0

    async def request(self, ask: ClientRequest) -> Reply:
        if self.away:
            raise Unreachable("away")
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        await self.gate.wait()
        self.inside -= 1
        if self.refusals:
            code = self.refusals.pop(0)
            return Reply(code, msgspec.json.encode({"kind": "Status", "code": code, "message": "no"}))
        self.sent.append((ask.method, ask.path, msgspec.json.decode(ask.body or b"{}")))
        return Reply(201, ask.body or b"{}")

    def stream(self, ask: ClientRequest) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError("Events are not watched")

    async def close(self) -> None: ...


def pod(name: str) -> Object:
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": "ns", "uid": f"u-{name}"}}


@asynccontextmanager
async def sending(recorder: EventRecorder) -> AsyncIterator[None]:
    task = asyncio.create_task(recorder.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def recorder_on(wire: Wire, clock: FakeClock, **options: Any) -> EventRecorder:
    return EventRecorder(Client(wire), "test", "host", clock, **options)


async def test_an_event_has_its_component_reason_and_object(wire: Wire, clock: FakeClock) -> None:
    recorder = recorder_on(wire, clock)
    recorder.record(pod("a"), "Normal", "Started", "it runs")
    async with sending(recorder):
        await recorder.flush()
    ((method, path, body),) = wire.sent
    assert (method, path) == ("POST", "/api/v1/namespaces/ns/events")
    assert body["involvedObject"] == {"kind": "Pod", "apiVersion": "v1", "namespace": "ns", "name": "a", "uid": "u-a"}
    assert (body["type"], body["reason"], body["message"], body["count"]) == ("Normal", "Started", "it runs", 1)
    assert body["source"] == {"component": "test", "host": "host"}
    assert body["firstTimestamp"] == body["lastTimestamp"] == "2023-11-14T22:13:20Z"


async def test_repeats_that_still_wait_are_sent_once_with_their_count(wire: Wire, clock: FakeClock) -> None:
    recorder = recorder_on(wire, clock)
    for _ in range(5):
        recorder.record(pod("a"), "Warning", "BackOff", "again")
        await clock.advance(1)
    async with sending(recorder):
        await recorder.flush()
    ((_, _, body),) = wire.sent
    assert body["count"] == 5
    assert (body["firstTimestamp"], body["lastTimestamp"]) == ("2023-11-14T22:13:20Z", "2023-11-14T22:13:24Z")


async def test_repeats_of_what_was_sent_raise_its_count(wire: Wire, clock: FakeClock) -> None:
    recorder = recorder_on(wire, clock)
    async with sending(recorder):
        recorder.record(pod("a"), "Warning", "BackOff", "again")
        await recorder.flush()
        recorder.record(pod("a"), "Warning", "BackOff", "again")
        recorder.record(pod("a"), "Warning", "BackOff", "again")
        await recorder.flush()
    (_, _, first), (method, path, change) = wire.sent
    assert method == "PATCH" and path.endswith(first["metadata"]["name"])
    assert change["count"] == 3


async def test_the_repeat_of_a_deleted_event_is_created_again(wire: Wire, clock: FakeClock) -> None:
    recorder = recorder_on(wire, clock)
    async with sending(recorder):
        recorder.record(pod("a"), "Warning", "BackOff", "again")
        await recorder.flush()
        wire.refusals = [404]
        recorder.record(pod("a"), "Warning", "BackOff", "again")
        await recorder.flush()
    assert [method for method, _, _ in wire.sent] == ["POST", "POST"]
    assert wire.sent[1][2]["count"] == 1


async def test_events_of_one_object_arrive_in_the_order_they_happened(wire: Wire, clock: FakeClock) -> None:
    recorder = recorder_on(wire, clock)
    names = [f"p{number}" for number in range(20)]
    for step in ("Scheduled", "Pulled", "Created", "Started"):
        for name in names:
            recorder.record(pod(name), "Normal", step, "m")
    async with sending(recorder):
        await recorder.flush()
    for name in names:
        steps = [body["reason"] for _, _, body in wire.sent if body["involvedObject"]["name"] == name]
        assert steps == ["Scheduled", "Pulled", "Created", "Started"]


async def test_no_more_events_are_under_way_than_there_are_lanes(wire: Wire, clock: FakeClock) -> None:
    recorder = recorder_on(wire, clock)
    wire.gate.clear()
    for number in range(200):
        recorder.record(pod(f"p{number}"), "Normal", "Started", "m")
    async with sending(recorder):
        for _ in range(50):
            await asyncio.sleep(0)
        assert wire.inside == wire.most_inside == WORKERS
        wire.gate.set()
        await recorder.flush()
    assert wire.most_inside == WORKERS and len(wire.sent) == 200


async def test_others_run_between_two_events_of_a_server_that_answers_at_once(wire: Wire, clock: FakeClock) -> None:
    recorder = recorder_on(wire, clock)
    for number in range(400):
        recorder.record(pod(f"p{number}"), "Normal", "Started", "m")
    seen: list[int] = []
    async with sending(recorder):
        while len(wire.sent) < 400:
            await asyncio.sleep(0)
            seen.append(len(wire.sent))
    assert max(after - before for before, after in zip([0, *seen], seen, strict=False)) <= WORKERS


async def test_only_a_full_queue_drops_and_says_how_many(wire: Wire, clock: FakeClock) -> None:
    recorder = recorder_on(wire, clock, room=10)
    for number in range(15):
        recorder.record(pod(f"p{number}"), "Normal", "Started", "m")
    recorder.record(pod("p0"), "Normal", "Started", "m")  # a repeat needs no space in the queue
    assert recorder.dropped == 5
    async with sending(recorder):
        await recorder.flush()
        recorder.record(pod("p14"), "Normal", "Started", "m")
        await recorder.flush()
    assert len(wire.sent) == 11 and recorder.dropped == 5


async def test_events_wait_for_a_server_that_is_away(wire: Wire, clock: FakeClock) -> None:
    recorder = recorder_on(wire, clock)
    wire.away = True
    async with sending(recorder):
        recorder.record(pod("a"), "Normal", "Started", "m")
        await clock.advance(5)
        assert wire.sent == []
        wire.away = False
        await clock.advance(10)
        await asyncio.wait_for(recorder.flush(), 5)
    assert len(wire.sent) == 1


async def test_a_refused_event_does_not_hold_up_the_next(wire: Wire, clock: FakeClock) -> None:
    recorder = recorder_on(wire, clock)
    wire.refusals = [403]
    async with sending(recorder):
        recorder.record(pod("a"), "Normal", "Started", "m")
        recorder.record(pod("a"), "Normal", "Pulled", "m")
        await recorder.flush()
    assert [body["reason"] for _, _, body in wire.sent] == ["Pulled"]


async def test_similar_events_of_one_object_become_one(wire: Wire, clock: FakeClock) -> None:
    recorder = recorder_on(wire, clock)
    async with sending(recorder):
        for number in range(20):
            recorder.record(pod("a"), "Normal", "SuccessfulCreate", f"Created pod: {number}")
            await recorder.flush()
    made = [body["message"] for method, _, body in wire.sent if method == "POST"]
    combined = "(combined from similar events): Created pod: "
    assert made == [*(f"Created pod: {number}" for number in range(9)), f"{combined}9"]
    last = wire.sent[-1][2]
    assert (last["message"], last["count"]) == (f"{combined}19", 11)


async def test_a_component_that_exceeds_its_event_limit_may_send_again_later(wire: Wire, clock: FakeClock) -> None:
    recorder = recorder_on(wire, clock)
    async with sending(recorder):
        for number in range(40):
            recorder.record(pod("a"), "Normal", f"Reason{number}", "m")
        recorder.record(pod("b"), "Normal", "Other", "m")
        await recorder.flush()
        assert len(wire.sent) == 26
        recorder.named("another").record(pod("a"), "Normal", "Mine", "m")
        await clock.advance(301)
        recorder.record(pod("a"), "Normal", "Later", "m")
        recorder.record(pod("a"), "Normal", "TooSoon", "m")
        await recorder.flush()
    assert [body["reason"] for _, _, body in wire.sent[26:]] == ["Mine", "Later"]
    assert wire.sent[26][2]["source"] == {"component": "another", "host": "host"}


async def test_a_recorder_that_does_not_correlate_says_everything(wire: Wire, clock: FakeClock) -> None:
    recorder = recorder_on(wire, clock, correlate=False)
    for number in range(40):
        recorder.record(pod("a"), "Normal", "Again", f"{number}")
    async with sending(recorder):
        await recorder.flush()
    assert len(wire.sent) == 40


async def test_an_action_is_recorded_with_its_time_and_repeats_as_a_series(wire: Wire, clock: FakeClock) -> None:
    recorder = ActionRecorder(Client(wire), "s", "s-host", {"Preempted": "Preempting"}, clock)
    async with sending(recorder):
        recorder.record(pod("victim"), "Normal", "Preempted", "gone", related=pod("vip"))
        await recorder.flush()
        recorder.record(pod("victim"), "Normal", "Preempted", "gone", related=pod("vip"))
        await recorder.flush()
    (_, _, made), (method, _, change) = wire.sent
    assert (made["action"], made["reportingComponent"], made["reportingInstance"]) == ("Preempting", "s", "s-host")
    assert (made["source"], made["firstTimestamp"], made["lastTimestamp"]) == ({}, None, None)
    assert made["eventTime"] == rfc3339_micro(clock.now()) and "count" not in made and "series" not in made
    assert made["related"] == {"kind": "Pod", "namespace": "ns", "name": "vip", "uid": "u-vip", "apiVersion": "v1"}
    assert (method, change) == ("PATCH", {"series": {"count": 2, "lastObservedTime": rfc3339_micro(clock.now())}})


async def test_repeats_that_were_not_sent_yet_make_a_series_at_once(wire: Wire, clock: FakeClock) -> None:
    recorder = ActionRecorder(Client(wire), "s", "s-host", {"FailedScheduling": "Scheduling"}, clock)
    for _ in range(3):
        recorder.record(pod("p"), "Warning", "FailedScheduling", "no room")
    async with sending(recorder):
        await recorder.flush()
    ((_, _, made),) = wire.sent
    assert made["series"]["count"] == 3
