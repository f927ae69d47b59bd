"""Requests of a phase for another pass."""

from __future__ import annotations

import pytest

from podfit.agent.phases.outcome import Stop, requeue
from podfit.reconcile.result import DONE, Requeue


@pytest.mark.parametrize(("after_s", "result"), [(None, DONE), (0.0, DONE), (3.0, Requeue(3.0, "why"))])
def test_no_seconds_mean_no_other_pass(after_s: float | None, result: object) -> None:
    assert requeue(after_s, "why") == result


def test_a_stop_needs_no_other_pass_unless_it_says_so() -> None:
    assert Stop().result == DONE
