"""The Retry-After of rejected requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podfit.apiserver.flows.retries import LONGEST_S, Retries


def test_a_single_rejection_sets_a_retry_after_of_one_second() -> None:
    assert Retries().reject(100) == 1


def test_the_delay_doubles_while_rejections_go_on() -> None:
    retries = Retries()
    delays = [max(retries.reject(second) for _ in range(100)) for second in range(100, 170)]
    assert sorted(set(delays)) == [1, 2, 4, 8, 16, 32]
    assert delays == sorted(delays)


def test_the_delay_falls_by_a_second_when_rejections_become_rare() -> None:
    retries = Retries()
    for second in range(100, 104):
        for _ in range(100):
            retries.reject(second)
    raised = retries.delay_s
    assert retries.reject(1000) == raised - 1


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 200)), max_size=30))
def test_the_delay_is_between_a_second_and_its_maximum(steps: list[tuple[int, int]]) -> None:
    retries, second = Retries(), 0
    for wait, count in steps:
        second += wait
        assert all(1 <= retries.reject(second) <= LONGEST_S for _ in range(count))
