"""One priority level: seats, queues and dispatch order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.apiserver.flows.borrowing import LevelBounds
from podfit.apiserver.flows.estimate import WorkEstimate
from podfit.apiserver.flows.level import Level, Rejected, Ticket


def level(limit: int, *, queues: int = 0, length: int = 50, hand: int = 1) -> Level:
    made = Level("x")
    queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": length}
    response = {"type": "Queue", "queuing": queuing} if queues else {"type": "Reject"}
    made.configure("uid", {"type": "Limited", "limited": {"limitResponse": response}}, LevelBounds(limit, limit, limit))
    made.set_limit(limit, 0)
    return made


def has_turn(ticket: Ticket) -> bool:
    return ticket.turn is None or ticket.turn.done()


def test_a_level_without_queues_rejects_what_it_has_no_seat_for() -> None:
    full = level(1)
    full.arrive(WorkEstimate(), 0, 0.0)
    with pytest.raises(Rejected, match="concurrency-limit"):
        full.arrive(WorkEstimate(), 0, 0.0)


def test_an_exempt_level_rejects_nothing() -> None:
    exempt = Level("exempt")
    exempt.configure("uid", {"type": "Exempt"}, LevelBounds(0, 0, 0, exempt=True))
    assert all(has_turn(exempt.arrive(WorkEstimate(10), 0, 0.0)) for _ in range(100))


def test_a_request_wider_than_its_level_is_served_when_nothing_else_is() -> None:
    assert has_turn(level(2).arrive(WorkEstimate(5), 0, 0.0))


async def test_a_full_queue_rejects() -> None:
    full = level(1, queues=1, length=2)
    for _ in range(3):
        full.arrive(WorkEstimate(), 0, 0.0)
    with pytest.raises(Rejected, match="queue-full"):
        full.arrive(WorkEstimate(), 0, 0.0)


async def test_a_free_seat_goes_to_a_waiting_request() -> None:
    one = level(1, queues=1)
    first, second = one.arrive(WorkEstimate(), 0, 0.0), one.arrive(WorkEstimate(), 0, 0.0)
    assert not has_turn(second)
    one.finish(first, 1.0)
    assert has_turn(second)


async def test_a_flow_that_fills_its_queue_does_not_delay_another() -> None:
    shared = level(1, queues=8)
    running = shared.arrive(WorkEstimate(), 0, 0.0)
    flood = [shared.arrive(WorkEstimate(), 0, 0.0) for _ in range(20)]
    other = shared.arrive(WorkEstimate(), 1, 0.0)
    shared.finish(running, 0.003)
    assert has_turn(other) or has_turn(flood[0])
    for ticket in [ticket for ticket in (other, flood[0]) if has_turn(ticket)]:
        shared.finish(ticket, 0.006)
    assert has_turn(other)


async def test_final_seats_stay_taken_until_they_are_freed() -> None:
    one = level(2, queues=1)
    ticket = one.arrive(WorkEstimate(1, 2, 0.005), 0, 0.0)
    one.finish(ticket, 1.0)
    assert one.executing == 2
    one.free(ticket, 1.005)
    assert one.executing == 0


async def test_a_cancelled_request_frees_its_place_in_the_queue() -> None:
    one = level(1, queues=1, length=1)
    one.arrive(WorkEstimate(), 0, 0.0)
    waiting = one.arrive(WorkEstimate(), 0, 0.0)
    one.abandon(waiting, 1.0)
    assert one.waiting == 0
    assert one.arrive(WorkEstimate(), 0, 1.0).turn is not None


STEPS = st.lists(st.tuples(st.sampled_from(["arrive", "finish", "abandon"]), st.integers(0, 9), st.integers(1, 4)))


@given(STEPS, st.integers(4, 8))
@settings(deadline=None)
async def test_seats_in_use_never_exceed_the_limit_and_no_request_waits_while_seats_are_free(
    steps: list[tuple[str, int, int]], limit: int
) -> None:
    one = level(limit, queues=4, hand=2)
    inside: list[Ticket] = []
    for now, (what, which, seats) in enumerate(steps):
        if what == "arrive":
            inside.append(one.arrive(WorkEstimate(seats), which, float(now)))
        else:
            some = [ticket for ticket in inside if has_turn(ticket) is (what == "finish")]
            if some:
                ticket = some[which % len(some)]
                (one.finish if what == "finish" else one.abandon)(ticket, float(now))
                inside.remove(ticket)
        executing = sum(ticket.work.most for ticket in inside if has_turn(ticket))
        assert one.executing == executing <= limit
        assert one.waiting == sum(ticket.work.most for ticket in inside if not has_turn(ticket))
        assert executing or not one.waiting


async def test_a_level_without_seats_lets_requests_wait() -> None:
    none = level(0, queues=1)
    assert not has_turn(none.arrive(WorkEstimate(), 0, 0.0))
    assert none.executing == 0


async def test_final_seats_are_narrowed_to_a_level_that_shrank() -> None:
    one = level(4, queues=1)
    first, wide = one.arrive(WorkEstimate(4), 0, 0.0), one.arrive(WorkEstimate(1, 4, 0.005), 0, 0.0)
    one.set_limit(2, 0.5)
    one.finish(first, 1.0)
    assert has_turn(wide) and one.executing == 2
    one.finish(wide, 2.0)
    one.free(wide, 2.01)
    assert (one.executing, [queue.load for queue in one.queues]) == (0, [0])
