"""The state of a resize, determined by one function for all components."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.api.resize.progress import InProgress, Pending, Progress, Remaining, Settled, pending, progress
from podfit.api.resize.verdicts import Deferred, Infeasible, Undecided, Unknown, is_resize_infeasible

OLD, NEW = {"cpu": "100m", "memory": "32Mi"}, {"cpu": "300m", "memory": "32Mi"}
AT = "2026-01-01T00:00:00Z"


def pod(
    allocated: dict[str, str], actual: dict[str, str], *conditions: dict[str, Any], seen: int | None = 2, **status: Any
) -> dict[str, Any]:
    """A pod of generation 2 that requests NEW."""
    state = {"name": "c", "allocatedResources": allocated, "resources": {"requests": actual}}
    reported = {} if seen is None else {"observedGeneration": seen}
    return {
        "metadata": {"name": "p", "namespace": "d", "generation": 2},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": NEW}}]},
        "status": {**reported, "conditions": list(conditions), "containerStatuses": [state], **status},
    }


def waits(reason: str = "Deferred", message: str = "no room", generation: int = 2) -> dict[str, Any]:
    kind = {"type": "PodResizePending", "status": "True", "observedGeneration": generation}
    return {**kind, "reason": reason, "message": message, "lastTransitionTime": AT}


def moves(reason: str = "", message: str = "") -> dict[str, Any]:
    kind = {"type": "PodResizeInProgress", "status": "True", "observedGeneration": 2}
    return {**kind, "reason": reason, "message": message, "lastTransitionTime": AT}


BEHIND = (Remaining("c", "requests", "cpu", 300, 100),)


@pytest.mark.parametrize(
    ("given_pod", "stands"),
    [
        (pod(OLD, OLD, seen=1), Pending(Undecided())),
        (pod(OLD, OLD), Pending(Undecided())),
        (pod(OLD, OLD, waits()), Pending(Deferred(message="no room"), AT)),
        (pod(OLD, OLD, waits("Infeasible")), Pending(Infeasible(message="no room"), AT)),
        (pod(OLD, OLD, waits("Other")), Pending(Unknown("Other", "no room"), AT)),
        (pod(OLD, OLD, waits(generation=1)), Pending(Undecided(), AT)),
        (pod(OLD, OLD, resize="Proposed"), Pending(Undecided(), "")),
        (pod(NEW, OLD, moves()), InProgress(BEHIND, since=AT)),
        (pod(NEW, OLD, moves("Error", "below usage")), InProgress(BEHIND, "below usage", "Error", AT)),
        (pod(NEW, NEW, moves()), InProgress(since=AT)),
        (pod(NEW, OLD), InProgress(BEHIND)),
        (pod(OLD, OLD, moves(), seen=1), Pending(Undecided(), AT)),
        (pod(NEW, NEW), Settled()),
        (pod(NEW, NEW, seen=None), Settled()),
    ],
)
def test_progress_follows_from_conditions_generation_and_sizes(given_pod: dict[str, Any], stands: Progress) -> None:
    assert progress(given_pod) == stands


def test_a_pending_resize_outranks_one_in_progress() -> None:
    assert progress(pod(OLD, OLD, moves(), waits())) == Pending(Deferred(message="no room"), AT)


def test_a_pod_without_a_node_has_nothing_to_resize() -> None:
    assert progress({"metadata": {"generation": 2}, "spec": {"containers": [{"name": "c"}]}}) == Settled()


def test_a_pod_that_its_node_has_not_reported_on_is_unjudged() -> None:
    new = {"metadata": {"generation": 1}, "spec": {"nodeName": "n1", "containers": [{"name": "c"}]}, "status": {}}
    assert progress(new) == Pending(Undecided())


def test_containers_that_do_not_run_are_never_behind() -> None:
    ended = pod(NEW, OLD)
    ended["status"]["containerStatuses"][0]["state"] = {"terminated": {}}
    assert progress(ended) == Settled()


def test_a_limit_that_the_kernel_rounded_is_applied() -> None:
    rounded = pod(NEW, NEW)
    rounded["spec"]["containers"][0]["resources"] = {"requests": NEW, "limits": {"cpu": "1", "memory": "64Mi"}}
    shown = rounded["status"]["containerStatuses"][0]["resources"]
    shown["limits"] = {"cpu": "995m", "memory": str((64 << 20) - 4096)}
    assert progress(rounded) == Settled()
    shown["limits"] = {"cpu": "500m", "memory": "64Mi"}
    assert progress(rounded) == InProgress((Remaining("c", "limits", "cpu", 1000, 500),))


def test_an_older_server_that_leaves_its_word_behind_is_not_believed() -> None:
    """A resize back to the allocation leaves the value of the last verdict, which names no generation."""
    left = {**waits("Infeasible"), "observedGeneration": 0}
    assert progress(pod(NEW, NEW, left, resize="Infeasible")) == Pending(Undecided(), AT)
    assert progress(pod(OLD, OLD, left, resize="Infeasible")) == Pending(Infeasible(message="no room"), AT)


# --- properties

GENERATIONS = st.integers(1, 4)
SIZES = st.sampled_from(("100m", "300m", "2"))
REASONS = st.sampled_from(("Deferred", "Infeasible", "Other"))


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    conditions = []
    if draw(st.booleans()):
        conditions.append(waits(draw(REASONS), generation=draw(GENERATIONS)))
    if draw(st.booleans()):
        conditions.append(moves(draw(st.sampled_from(("", "Error")))))
    made = pod({"cpu": draw(SIZES)}, {"cpu": draw(SIZES)}, *conditions, seen=draw(GENERATIONS))
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": draw(SIZES)}}
    made["metadata"]["generation"] = draw(GENERATIONS)
    return made


def requests(made: dict[str, Any]) -> tuple[str, str, str]:
    [status] = made["status"]["containerStatuses"]
    desired = made["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return desired, status["allocatedResources"]["cpu"], status["resources"]["requests"]["cpu"]


@given(pods())
def test_settled_means_that_nothing_is_reported_and_all_sizes_agree(made: dict[str, Any]) -> None:
    desired, allocated, actual = requests(made)
    observed = made["status"]["observedGeneration"] >= made["metadata"]["generation"]
    settled = not made["status"]["conditions"] and observed and desired == allocated == actual
    assert isinstance(progress(made), Settled) is settled


@given(pods())
def test_in_progress_means_that_what_is_desired_is_allocated(made: dict[str, Any]) -> None:
    desired, allocated, actual = requests(made)
    stands = progress(made)
    if isinstance(stands, InProgress):
        assert desired == allocated
        assert bool(stands.remaining) is (desired != actual)


@given(pods())
def test_what_is_pending_is_the_first_half_of_the_same_answer(made: dict[str, Any]) -> None:
    waiting = pending(made)
    if waiting is not None:
        assert progress(made) == waiting
    assert is_resize_infeasible(made) is (waiting is not None and isinstance(waiting.verdict, Infeasible))


@given(pods())
def test_a_verdict_is_about_the_present_spec(made: dict[str, Any]) -> None:
    waiting = pending(made)
    if waiting is not None and not isinstance(waiting.verdict, Undecided):
        [condition] = [known for known in made["status"]["conditions"] if known["type"] == "PodResizePending"]
        assert condition["observedGeneration"] >= made["metadata"]["generation"]
