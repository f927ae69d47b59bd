"""The back-off of containers that crash or cannot be started."""

from __future__ import annotations

from tests.unit.agent.lab import Lab

from podfit.agent.backoff import CRASH_LOOP
from podfit.agent.decide.pod.lifecycle import Seen
from podfit.agent.runtimes.values import EXITED, ContainerState


def crashed(number: int, at: float) -> Seen:
    state = ContainerState(f"id{number}", "c", number, EXITED, "i", "i", at - 2, at - 1, at, 1)
    return Seen("c", state, None, False, False, "", None)


async def test_each_crash_doubles_the_pause_after_the_first(lab: Lab) -> None:
    backoff, record = lab.built.allocation.backoff, lab.record()
    delays = []
    for number in range(4):
        delays.append(backoff.delay(record, crashed(number, lab.clock.now())))
    assert delays == [0.0, 10.0, 20.0, 40.0]


async def test_a_container_that_waits_is_reported_with_one_event(lab: Lab) -> None:
    backoff, record = lab.built.allocation.backoff, lab.record()
    for number in range(2):
        backoff.delay(record, crashed(number, lab.clock.now()))
    backoff.report(record, "c")
    backoff.report(record, "c")
    assert record.waiting.reason("c") == CRASH_LOOP
    assert lab.events.reasons == ["BackOff"]


async def test_a_new_size_lets_containers_start_at_once(lab: Lab) -> None:
    backoff, record = lab.built.allocation.backoff, lab.record()
    for number in range(3):
        backoff.delay(record, crashed(number, lab.clock.now()))
    assert backoff.hold(record, "c") > 0
    backoff.retry_at_once(record, ["c"])
    assert backoff.held_s(record, "c") == 0.0
    assert backoff.delay(record, crashed(2, lab.clock.now())) == 0.0
