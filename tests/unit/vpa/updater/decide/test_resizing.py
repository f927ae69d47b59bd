"""A pod's progress in the words of the Kubernetes updater."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.vpa.updater.decide.resizing import ResizeStatus, is_resizing, resize_status


def pod(*conditions: tuple[str, str, str]) -> dict[str, Any]:
    listed = [
        {"type": kind, "status": status, "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind, status, reason in conditions
    ]
    return {"metadata": {"name": "p"}, "spec": {"containers": []}, "status": {"conditions": listed}}


PENDING, MOVING = "PodResizePending", "PodResizeInProgress"


@pytest.mark.parametrize(
    ("conditions", "status"),
    [
        ((), ResizeStatus.NONE),
        (((PENDING, "True", "Deferred"),), ResizeStatus.DEFERRED),
        (((PENDING, "True", "Infeasible"),), ResizeStatus.INFEASIBLE),
        (((PENDING, "True", "Elsewhere"),), ResizeStatus.UNKNOWN),
        (((MOVING, "True", ""),), ResizeStatus.IN_PROGRESS),
        (((MOVING, "True", "Error"),), ResizeStatus.ERROR),
        (((PENDING, "False", "Deferred"),), ResizeStatus.NONE),
    ],
)
def test_conditions_have_the_words_of_the_updater(conditions: Any, status: ResizeStatus) -> None:
    assert resize_status(pod(*conditions)) is status
    assert is_resizing(pod(*conditions)) is (status is not ResizeStatus.NONE)


def test_the_first_resize_condition_counts_for_both() -> None:
    assert resize_status(pod((PENDING, "False", "Deferred"), (MOVING, "True", ""))) is ResizeStatus.NONE
