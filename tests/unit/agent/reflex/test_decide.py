"""A node's report of a container that is near its memory limit."""

from __future__ import annotations

import pytest

from podfit.agent.reflex.decide import RAISES_OF_A_LEAK, WatchedContainer, calm, near, stuck
from podfit.api.pods.reflex import AMOUNTS, CALM, LEAK, NEAR, NOT_RAISED, near_of

NOW = "2026-01-01T00:00:00Z"


def test_raises_are_counted_only_while_the_container_is_near_its_limit() -> None:
    first = WatchedContainer("c", "id", 100)
    assert first.next("id", 200, was_near=True).raises == 1
    assert first.next("id", 200, was_near=False).raises == 0
    assert first.next("id", 50, was_near=True).raises == 0


def test_a_restarted_container_begins_without_raises() -> None:
    assert WatchedContainer("c", "id", 100, raises=5).next("other", 200, was_near=True) == WatchedContainer(
        "c", "other", 200
    )


def test_the_reported_amounts_are_read_back() -> None:
    pod = near(WatchedContainer("c", "id", 100), 95).change(NOW)
    [condition] = pod["status"]["conditions"]
    found = near_of(pod)
    assert condition["reason"] == NEAR and condition["lastTransitionTime"] == NOW
    assert found is not None and (found.container, found.used, found.limit) == ("c", 95, 100)


def test_amounts_in_messages_are_mebibytes() -> None:
    assert near(WatchedContainer("c", "id", 64 << 20), 61353984).message == "container c uses 58.5Mi of 64Mi"


def test_a_limit_that_is_not_raised_is_a_suspected_leak_only_after_raises() -> None:
    assert stuck(WatchedContainer("c", "id", 100, RAISES_OF_A_LEAK - 1), 95).reason == NOT_RAISED
    assert stuck(WatchedContainer("c", "id", 100, RAISES_OF_A_LEAK), 95).reason == LEAK


def test_a_calm_container_ends_the_condition() -> None:
    change = calm(WatchedContainer("c", "id", 100)).change(NOW)
    [condition] = change["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", CALM)
    assert change["metadata"]["annotations"] == {AMOUNTS: None} and near_of(change) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"container": "c"}', '{"container": "c", "used": "1", "limit": 2}'])
def test_amounts_that_cannot_be_read_count_as_none(text: str) -> None:
    pod = near(WatchedContainer("c", "id", 100), 95).change(NOW)
    assert near_of({**pod, "metadata": {"annotations": {AMOUNTS: text}}}) is None


def test_amounts_without_the_condition_count_as_none() -> None:
    """A pod copied from another has its annotations, not its conditions."""
    assert near_of({"metadata": near(WatchedContainer("c", "id", 100), 95).change(NOW)["metadata"]}) is None
