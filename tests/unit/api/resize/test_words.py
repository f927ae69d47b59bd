"""`status.resize` of servers before 1.33, derived from a native pod."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.resize.words import decided, gap_of, resize_of, same, words_by_resource

OLD, NEW = {"cpu": "100m"}, {"cpu": "300m"}


def pod(allocated: dict[str, str], actual: dict[str, str], *conditions: str, seen: int = 2) -> dict[str, Any]:
    made = [{"type": kind, "status": "True", "reason": reason} for kind, _, reason in map(split, conditions)]
    status = {"name": "c", "allocatedResources": allocated, "resources": {"requests": actual}}
    return {
        "metadata": {"generation": 2},
        "spec": {"containers": [{"name": "c", "resources": {"requests": NEW}}]},
        "status": {"observedGeneration": seen, "conditions": made, "containerStatuses": [status]},
    }


def split(text: str) -> tuple[str, str, str]:
    return text.partition(" ")


@pytest.mark.parametrize(
    ("given_pod", "word"),
    [
        (pod(OLD, OLD, seen=1), "Proposed"),
        (pod(OLD, OLD, "PodResizePending Deferred"), "Deferred"),
        (pod(OLD, OLD, "PodResizePending Infeasible"), "Infeasible"),
        (pod(NEW, OLD, "PodResizeInProgress"), "InProgress"),
        (pod(NEW, NEW), None),
    ],
)
def test_the_word_follows_from_conditions_and_generation(given_pod: dict[str, Any], word: str | None) -> None:
    assert words_by_resource(given_pod).get("cpu") == word


def test_a_pending_condition_without_a_reason_means_deferred() -> None:
    assert resize_of(pod(OLD, OLD, "PodResizePending")).pending == "Deferred"


def test_amounts_are_compared_by_value_and_unset_equals_only_unset() -> None:
    assert same("1", "1000m") and same(None, None) and not same(None, "0")
    assert gap_of(pod(NEW, OLD)).unapplied == {"cpu"} and not gap_of(pod(NEW, OLD)).requests


def test_a_condition_that_stays_keeps_its_times() -> None:
    before = [{"type": "PodResizePending", "status": "True", "reason": "Deferred", "lastTransitionTime": "then"}]
    [kept] = decided(before, "Deferred", False, 3, "now")
    assert (kept["lastTransitionTime"], kept["observedGeneration"]) == ("then", 3)
    [changed] = decided(before, "Infeasible", False, 3, "now")
    assert changed["lastTransitionTime"] == "now"
    assert decided(before, "", False, 3, "now") == []
