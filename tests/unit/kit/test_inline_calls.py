"""Which calls run on the event loop instead of in a thread."""

from __future__ import annotations

from podfit.kit.concurrency.inline_calls import InlineCalls


def test_quick_calls_stay_in_place() -> None:
    inline = InlineCalls(limit_s=0.002)
    for _ in range(100):
        assert inline.in_place()
        inline.took(0.001)


def test_a_slow_call_sends_the_next_ones_elsewhere_and_is_then_tried_again() -> None:
    inline = InlineCalls(limit_s=0.002, rest=3)
    assert inline.in_place()
    inline.took(0.010)
    assert [inline.in_place() for _ in range(5)] == [False, False, False, True, True]
