"""The progress of a resize, read from status alone."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.cli.printing.wording import condition_words, sized_words
from podfit.cli.resizing.following import Followed, words
from podfit.cli.resizing.stages import ResizeStage, bar, step_of

OLD, NEW = {"cpu": "100m", "memory": "32Mi"}, {"cpu": "300m", "memory": "32Mi"}
DEFERRED = "Node didn't have enough resource: cpu, requested: 300, used: 1880, capacity: 2000"


def pod(
    allocated: dict[str, str], actual: dict[str, str], *conditions: dict[str, Any], seen: int = 2
) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "d", "generation": 2},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": NEW}}]},
        "status": {
            "observedGeneration": seen,
            "conditions": list(conditions),
            "containerStatuses": [{"name": "c", "allocatedResources": allocated, "resources": {"requests": actual}}],
        },
    }


def condition(kind: str, reason: str = "", message: str = "", generation: int = 2) -> dict[str, Any]:
    return {"type": kind, "status": "True", "reason": reason, "message": message, "observedGeneration": generation}


@pytest.mark.parametrize(
    ("given", "stage", "reason"),
    [
        (pod(OLD, OLD, seen=1), "Pending", ""),
        (pod(OLD, OLD, condition("PodResizePending", "Deferred", DEFERRED)), "Pending", "Deferred"),
        (pod(OLD, OLD, condition("PodResizePending", "Infeasible", "x", 1)), "Pending", ""),
        (pod(NEW, OLD, condition("PodResizeInProgress")), "Allocated", ""),
        (pod(NEW, OLD, condition("PodResizeInProgress", "Error", "no")), "Allocated", "Error"),
        (pod(NEW, OLD), "Allocated", ""),
        (pod(NEW, NEW, condition("PodResizeInProgress")), "Actuated", ""),
        (pod(NEW, NEW), "Actual", ""),
    ],
)
def test_the_stage_follows_from_status(given: dict[str, Any], stage: str, reason: str) -> None:
    step = step_of(given)
    assert (step.stage, step.reason) == (stage, reason)
    assert step.done == (stage == "Actual")
    assert len(bar(step)) == 16


def test_a_verdict_says_what_is_short_where_that_was_computed() -> None:
    waiting = pod(OLD, OLD, condition("PodResizePending", "Deferred", DEFERRED))
    short = "needs 300m cpu, node n1 has 120m free"
    assert words(step_of(waiting, short)) == f"Pending (Deferred: {short})"
    refused = step_of(pod(OLD, OLD, condition("PodResizePending", "Infeasible", "x")), "needs 64Gi memory")
    assert refused.refused and refused.why == "needs 64Gi memory"


def test_a_verdict_without_a_computed_shortage_keeps_the_words_of_its_node() -> None:
    assert step_of(pod(OLD, OLD, condition("PodResizePending", "Deferred", DEFERRED))).why == DEFERRED


def test_following_ends_when_all_pods_are_done_or_refused() -> None:
    followed = Followed({("d", "p"): pod(OLD, OLD, seen=1)})
    assert not followed.over
    assert followed.take(("d", "p"), pod(NEW, OLD))
    assert not followed.take(("d", "other"), pod(NEW, NEW))
    assert followed.take(("d", "p"), pod(NEW, NEW)) and followed.over
    assert followed.take(("d", "p"), None) and followed.over


def test_an_older_picture_of_the_pod_changes_nothing() -> None:
    followed = Followed({("d", "p"): pod(NEW, OLD)})
    older = pod(NEW, NEW)
    older["metadata"]["generation"] = 1
    assert not followed.take(("d", "p"), older)


def test_events_are_shown_without_their_json() -> None:
    sizes = '{"limits":{"cpu":"200m"},"requests":{"cpu":"150m"}}'
    text = f'Pod resize started: {{"containers":[{{"name":"c","resources":{sizes}}}],"generation":2}}'
    assert sized_words(text) == "Pod resize started: c cpu 150m/200m"
    assert sized_words("Pod: {broken") == "Pod: {broken"


def test_a_condition_says_what_to_do_in_the_words_of_its_node() -> None:
    lines = condition_words(condition("PodResizePending", "Deferred", DEFERRED))
    assert DEFERRED in lines and "retried" in lines


def test_progress_steps_are_in_order() -> None:
    assert [ResizeStage(item).number for item in ("Pending", "Allocated", "Actuated", "Actual")] == [0, 1, 2, 3]


def test_a_step_that_fails_shows_the_words_of_its_node() -> None:
    message = 'attempting to set container "a" memory limit (67108864) below current usage (134217728)'
    failing = step_of(pod(NEW, OLD, condition("PodResizeInProgress", "Error", message)))
    assert (failing.stage, failing.reason, failing.why) == ("Allocated", "Error", message)


def test_a_pod_without_a_node_is_not_called_resized_on_one() -> None:
    waiting = {"metadata": {"generation": 2}, "spec": {"containers": [{"name": "c"}]}, "status": {}}
    assert words(step_of(waiting)) == "not on a node yet, starts with this size"
