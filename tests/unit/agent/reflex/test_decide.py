"""What a node reports of a container that is near its memory limit."""

from __future__ import annotations

from podfit.agent.reflex.decide import RAISES_OF_A_LEAK, Watched, calm, near, stuck
from podfit.api.pods.reflex import CALM, LEAK, NEAR, NOT_RAISED, near_of

NOW = "2026-01-01T00:00:00Z"


def test_raises_are_counted_only_while_the_container_is_near_its_limit() -> None:
    first = Watched("c", "id", 100)
    assert first.next("id", 200, was_near=True).raises == 1
    assert first.next("id", 200, was_near=False).raises == 0
    assert first.next("id", 50, was_near=True).raises == 0


def test_a_restarted_container_begins_without_raises() -> None:
    assert Watched("c", "id", 100, raises=5).next("other", 200, was_near=True) == Watched("c", "other", 200)


def test_the_condition_reads_back_as_the_usage_it_was_made_of() -> None:
    condition = near(Watched("c", "id", 100), 95, NOW)
    found = near_of({"status": {"conditions": [condition]}})
    assert condition["reason"] == NEAR and condition["lastTransitionTime"] == NOW
    assert found is not None and (found.container, found.used, found.limit) == ("c", 95, 100)


def test_a_limit_that_is_not_raised_is_a_suspected_leak_only_after_raises() -> None:
    assert stuck(Watched("c", "id", 100, RAISES_OF_A_LEAK - 1), 95, NOW)["reason"] == NOT_RAISED
    assert stuck(Watched("c", "id", 100, RAISES_OF_A_LEAK), 95, NOW)["reason"] == LEAK


def test_a_calm_container_ends_the_condition() -> None:
    condition = calm(Watched("c", "id", 100), NOW)
    assert (condition["status"], condition["reason"]) == ("False", CALM)
    assert near_of({"status": {"conditions": [condition]}}) is None
