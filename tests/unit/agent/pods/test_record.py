"""The agent's record of one pod."""

from __future__ import annotations

from tests.unit.agent.lab import Lab, resized

from podfit.agent.metrics import CREATE, KILL, SYNC, TERMINATED, UPDATE
from podfit.agent.pods import termination
from podfit.agent.pods.record import CrashBackoff


def test_the_first_crash_restarts_at_once_and_the_pause_doubles_up_to_five_minutes() -> None:
    backoff, pauses = CrashBackoff(), list[float]()
    for number in range(8):
        backoff.ended(f"id{number}", ran_s=1.0, at=0.0)
        pauses.append(backoff.wait_s)
    assert pauses == [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]


def test_ten_minutes_of_running_and_a_resize_end_the_backoff() -> None:
    backoff = CrashBackoff()
    for number in range(4):
        backoff.ended(f"id{number}", ran_s=1.0, at=0.0)
    backoff.ended("id", ran_s=600.0, at=0.0)
    assert backoff.wait_s == 0.0
    for number in range(4):
        backoff.ended(f"again{number}", ran_s=1.0, at=0.0)
    backoff.reset()
    assert backoff.wait_s == 0.0
    backoff.ended("next", ran_s=1.0, at=0.0)
    assert backoff.wait_s == 10.0


async def test_the_spec_is_read_once_for_each_state_of_it(lab: Lab) -> None:
    record = lab.record()
    first = record.desired
    record.with_status({**record.pod, "status": {"phase": "Running"}})
    assert record.desired is first
    record.pod = resized(record.pod, "200m")
    assert record.desired.containers["c"]["requests"]["cpu"] == "200m"


async def test_the_kind_of_a_pass_follows_from_what_was_passed_before(lab: Lab) -> None:
    record = await lab.run()
    record.passed = 0
    assert [record.next_pass(), record.next_pass()] == [CREATE, SYNC]
    record.pod = resized(record.pod, "200m", revision=7)
    assert record.next_pass() == UPDATE
    termination.evicted(record, "Evicted", "x", 1.0, True)
    assert record.next_pass() == KILL
    record.finished = True
    assert record.next_pass() == TERMINATED


async def test_a_pod_holds_its_allocation_until_it_is_finished_rejected_or_gone(lab: Lab) -> None:
    record = lab.record()
    assert record.holds
    termination.evicted(record, "Evicted", "x", 1.0, True)
    assert record.holds, "its containers still run"
    termination.gone(record)
    assert not record.holds
    other = lab.record()
    other.rejected = ("OutOfcpu", "no")
    assert not other.holds and other.terminal
