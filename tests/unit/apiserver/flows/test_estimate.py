"""Seats by estimated work."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podfit.apiserver.flows.estimate import EVENT_S, WATCHES_PER_SEAT, list_work, most_seats, write_work


def test_a_list_takes_a_seat_for_every_100_kb_it_holds() -> None:
    assert list_work(count=300, average_bytes=1000, limit=0, most=50).seats == 3


def test_a_page_of_a_list_takes_seats_for_the_page() -> None:
    assert list_work(count=5000, average_bytes=1000, limit=100, most=50).seats == 1


def test_a_list_from_memory_takes_ten_seats_at_most() -> None:
    assert list_work(count=10**6, average_bytes=10**4, limit=0, most=1000).seats == 10


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 100))
def test_a_list_takes_at_least_one_seat_and_no_more_than_its_level_gives(a: int, b: int, c: int, most: int) -> None:
    assert 1 <= list_work(a, b, c, most).seats <= most


@given(st.integers(0, 10**5), st.integers(1, 100))
def test_events_cost_the_same_work_on_however_many_seats(watches: int, most: int) -> None:
    work = write_work(watches, most)
    if watches < WATCHES_PER_SEAT:
        assert (work.most, work.extra_s) == (1, 0)
    else:
        assert abs(work.final_seats * work.extra_s - -(-watches // WATCHES_PER_SEAT) * EVENT_S) < 1e-9


@given(st.integers(0, 10**4))
def test_every_level_has_a_seat_for_a_request(nominal: int) -> None:
    assert most_seats(nominal) >= 1
