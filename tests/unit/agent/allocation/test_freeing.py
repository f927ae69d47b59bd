"""Increases that only wait for a decrease in progress are not reported as pending."""

from __future__ import annotations

from tests.unit.agent.lab import Lab, pod

from podfit.agent.allocation.freeing import GRACE_S, Freeing
from podfit.api.quantity import Quantity
from podfit.api.resize.states import Allocated
from podfit.api.resize.verdicts import Shortage

SHORT = [Shortage("cpu", requested=2000, used=3000, capacity=4000)]
PROMISED = Allocated({})


def cpu(milli: int) -> dict[str, Quantity]:
    return {"cpu": Quantity.of_milli(milli)}


def freeing(lab: Lab, milli: int) -> Freeing:
    lab.add(pod("a", cpu="2"))
    made = Freeing(lab.records, lab.clock)
    made.counted("a", PROMISED, cpu(2000), cpu(2000 - milli))
    return made


async def test_a_resize_that_a_decrease_covers_waits_in_silence_but_not_for_long(lab: Lab) -> None:
    made = freeing(lab, 1000)
    assert made.keep_silent("b", SHORT)
    assert made.grace_left_s({"b"}) == GRACE_S
    await lab.clock.advance(GRACE_S)
    assert not made.keep_silent("b", SHORT)


async def test_a_decrease_that_is_too_small_covers_nothing(lab: Lab) -> None:
    made = freeing(lab, 999)
    assert not made.keep_silent("b", SHORT)
    assert made.grace_left_s({"b"}) is None


async def test_a_decrease_that_failed_or_was_applied_covers_nothing(lab: Lab) -> None:
    made = freeing(lab, 1000)
    lab.records["a"].failed = PROMISED
    assert not made.keep_silent("b", SHORT)
    lab.records["a"].failed = None
    made.counted("a", PROMISED, cpu(1000), cpu(1000))
    assert not made.keep_silent("b", SHORT)


async def test_a_pod_does_not_wait_for_its_own_decrease(lab: Lab) -> None:
    assert not freeing(lab, 1000).keep_silent("a", SHORT)


async def test_a_resize_that_is_no_longer_pending_is_not_waited_for(lab: Lab) -> None:
    made = freeing(lab, 1000)
    made.keep_silent("b", SHORT)
    assert made.grace_left_s(set()) is None
