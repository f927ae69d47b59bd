"""Seats by estimated work."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podfit.apiserver.flows.borrowing import LevelBounds
from podfit.apiserver.flows.estimate import (
    EVENT_S,
    WATCHES_PER_SEAT,
    ListRequest,
    WorkEstimate,
    list_work,
    most_seats,
    write_work,
)

ALL = ListRequest()


def test_a_list_takes_a_seat_for_every_100_kb_it_holds() -> None:
    assert list_work(300, 1000, ALL, most=50).seats == 3


def test_a_page_of_a_list_takes_seats_for_the_page() -> None:
    assert list_work(5000, 1000, ListRequest(limit=100), most=50).seats == 1


def test_a_list_from_memory_takes_ten_seats_at_most() -> None:
    assert list_work(10**6, 10**4, ALL, most=1000).seats == 10


def test_a_list_from_the_store_takes_seats_for_all_that_it_reads() -> None:
    assert list_work(4000, 1000, ListRequest(limit=500, from_storage=True, selective=True), most=0).seats == 20
    assert list_work(10**6, 10**4, ListRequest(from_storage=True), most=0).seats == 100


def test_one_object_of_many_takes_one_seat() -> None:
    assert list_work(10**6, 1000, ListRequest(single=True), most=0) == WorkEstimate()


@given(
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.builds(ListRequest, st.integers(0, 10**6), st.booleans(), st.booleans(), st.booleans()),
    st.integers(1, 100),
)
def test_a_list_takes_at_least_one_seat_and_no_more_than_its_level_gives(
    a: int, b: int, c: ListRequest, most: int
) -> None:
    assert 1 <= list_work(a, b, c, most).seats <= most


@given(st.integers(0, 10**5), st.integers(1, 100))
def test_events_cost_the_same_work_on_however_many_seats(watches: int, most: int) -> None:
    work = write_work(watches, most)
    if watches < WATCHES_PER_SEAT:
        assert (work.most, work.extra_s) == (1, 0)
    else:
        assert abs(work.final_seats * work.extra_s - -(-watches // WATCHES_PER_SEAT) * EVENT_S) < 1e-9


@given(st.integers(1, 100), st.integers(1, 100))
def test_on_fewer_seats_the_same_work_takes_longer(watches: int, limit: int) -> None:
    work = write_work(watches, 0)
    less = work.within(limit)
    assert less.final_seats <= max(limit, work.final_seats)
    assert abs(less.final_seats * less.extra_s - work.final_seats * work.extra_s) < 1e-9


def queue(hand: int) -> dict[str, object]:
    return {"limited": {"limitResponse": {"type": "Queue", "queuing": {"handSize": hand}}}}


@given(st.integers(0, 10**4), st.integers(1, 20))
def test_every_level_has_a_seat_for_a_request(nominal: int, hand: int) -> None:
    assert most_seats(queue(hand), LevelBounds(nominal, 0, nominal)) >= 1


def test_a_request_takes_15_percent_of_a_level_or_the_seats_of_a_hand_of_queues() -> None:
    assert most_seats(queue(6), LevelBounds(98, 0, 98)) == 15
    assert most_seats(queue(10), LevelBounds(98, 0, 98)) == 9


def test_a_level_that_does_not_queue_does_not_narrow_requests() -> None:
    assert most_seats({"limited": {"limitResponse": {"type": "Reject"}}}, LevelBounds(13, 13, 13)) == 0
    assert most_seats({"type": "Exempt"}, LevelBounds(0, 0, 0, exempt=True)) == 0
