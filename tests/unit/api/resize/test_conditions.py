"""Finding the two conditions of a resize."""

from __future__ import annotations

from typing import Any

from podfit.api.resize.conditions import IN_PROGRESS, PENDING, is_outdated, listed, reported


def pod(*conditions: dict[str, Any], generation: int = 2) -> dict[str, Any]:
    return {"metadata": {"generation": generation}, "status": {"conditions": list(conditions)}}


def test_a_condition_is_reported_only_while_it_is_true() -> None:
    off = {"type": PENDING, "status": "False"}
    assert listed(pod(off), PENDING) is not None and reported(pod(off), PENDING) is None
    assert reported(pod(off, {"type": IN_PROGRESS, "status": "True"}), IN_PROGRESS) is not None


def test_a_pod_without_a_status_has_no_condition() -> None:
    assert listed({}, PENDING) is None and reported({"status": {"conditions": None}}, PENDING) is None


def test_a_condition_about_an_earlier_generation_is_outdated_and_one_about_none_is_not() -> None:
    assert is_outdated(pod(), {"observedGeneration": 1})
    assert not is_outdated(pod(), {"observedGeneration": 2})
    assert not is_outdated(pod(), {}) and not is_outdated(pod(), {"observedGeneration": 0})
