"""The status in the form of API servers before 1.33."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.agent.decide.pod.older import between, in_words, known

PENDING = {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "observedGeneration": 3}
GOING = {"type": "PodResizeInProgress", "status": "True"}
READY = {"type": "Ready", "status": "True", "observedGeneration": 3}


def test_newer_fields_and_resize_conditions_are_left_out() -> None:
    status = {"phase": "Running", "observedGeneration": 3, "resources": {}, "conditions": [PENDING, GOING, READY]}
    assert known(status) == {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


@pytest.mark.parametrize(
    ("conditions", "word"),
    [
        ([PENDING, GOING], "Infeasible"),
        ([{**PENDING, "reason": ""}], "Deferred"),
        ([GOING], "InProgress"),
        ([{**PENDING, "status": "False"}], None),
        ([READY], None),
    ],
)
def test_the_word_follows_from_the_conditions(conditions: list[dict[str, Any]], word: str | None) -> None:
    assert in_words({"conditions": conditions}, {"resize": "Proposed"}, undecided=False)["resize"] == word


def test_an_undecided_resize_keeps_its_current_status() -> None:
    assert in_words({"conditions": [GOING]}, {"resize": "Proposed"}, undecided=True)["resize"] == "Proposed"


def test_a_resize_that_waited_is_accepted_before_it_is_done() -> None:
    pod = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
        "status": {
            "resize": "Deferred",
            "containerStatuses": [
                {
                    "name": "c",
                    "state": {"running": {"startedAt": "x"}},
                    "allocatedResources": {"cpu": "1"},
                    "resources": {"requests": {"cpu": "1"}},
                }
            ],
        },
    }
    after = {
        "containerStatuses": [
            {"name": "c", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "2"}}}
        ]
    }
    found = between(pod, after, "2026-01-01T00:00:00Z")
    assert found is not None and found["resize"] == "InProgress"
    assert between({**pod, "status": {**pod["status"], "resize": "InProgress"}}, after, "now") is None  # type: ignore[dict-item]
