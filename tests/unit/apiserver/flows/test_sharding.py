"""Shuffle sharding: hands of queues."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podfit.apiserver.flows.sharding import deal, flow_hash


@given(st.integers(0, 2**64 - 1), st.integers(1, 128), st.integers(1, 10))
def test_a_hand_has_different_queues_of_the_level(number: int, queues: int, size: int) -> None:
    hand = deal(number, queues, size)
    assert len(set(hand)) == len(hand) == min(size, queues)
    assert all(0 <= queue < queues for queue in hand)


def test_every_hand_is_dealt_by_some_number() -> None:
    assert len({tuple(deal(number, 4, 2)) for number in range(12)}) == 12


def test_flows_of_one_schema_have_numbers_of_their_own() -> None:
    assert flow_hash("s", "a") == flow_hash("s", "a") != flow_hash("s", "b")
