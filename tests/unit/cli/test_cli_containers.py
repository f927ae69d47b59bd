"""OOM kills are read from the API's fields alone, with the limit at that time and a recommended action."""

from __future__ import annotations

import time
from typing import Any

import pytest

from podfit.cli.containers import containers_of, oom_kills, oom_lines, state_words
from podfit.kit.clock import rfc3339


def ended(reason: str = "OOMKilled", ago: float = 10) -> dict[str, Any]:
    return {"terminated": {"reason": reason, "exitCode": 137, "finishedAt": rfc3339(time.time() - ago)}}


def pod(
    state: dict[str, Any],
    last: dict[str, Any],
    requests: str = "16Mi",
    limits: str | None = "32Mi",
    phase: str = "Running",
    **meta: Any,
) -> dict[str, Any]:
    resources: dict[str, Any] = {"requests": {"memory": requests}}
    if limits is not None:
        resources["limits"] = {"memory": limits}
    status = {"name": "c", "state": state, "lastState": last, "restartCount": 3, "resources": resources}
    return {
        "metadata": {"name": "p", "namespace": "default", **meta},
        "spec": {"containers": [{"name": "c", "resources": resources}]},
        "status": {"phase": phase, "containerStatuses": [status]},
    }


RUNNING = {"running": {"startedAt": rfc3339(time.time())}}


def test_a_kill_in_the_last_life_names_limit_restarts_and_command() -> None:
    [line] = oom_lines(pod(RUNNING, ended()))
    assert line.startswith("Container c was OOM-killed 10s ago at its memory limit of 32Mi (3 restarts). ")
    assert line.endswith("Raise the limit: podfit resize p --limits memory=64Mi")


def test_a_kill_without_a_restart_counts_too() -> None:
    [kill] = oom_kills(pod(ended(), {}, phase="Failed"))
    assert not kill.running and kill.limit_then == "32Mi"
    assert oom_lines(pod(ended(), {}, phase="Failed"))[0].endswith("Create the pod again with a higher memory limit.")


def test_a_kill_before_another_end_is_history() -> None:
    assert oom_kills(pod(ended("Error"), ended())) == []
    assert oom_kills(pod(RUNNING, ended("Completed"))) == []


def test_where_request_and_limit_are_equal_the_request_is_raised_with_it() -> None:
    [line] = oom_lines(pod(RUNNING, ended(), requests="32Mi", namespace="shop"))
    assert line.endswith("podfit resize p --memory 64Mi -n shop")


def test_without_a_limit_the_cause_is_elsewhere() -> None:
    [line] = oom_lines(pod(RUNNING, ended(), limits=None))
    assert "without a memory limit of its own: the pod or the node ran out of memory" in line


@pytest.mark.parametrize(
    ("story", "then"),
    [
        ([], None),
        ([{"what": "OOM-killed", "why": "c", "numbers": {"memory_limit": "32Mi"}}], "32Mi"),
        ([{"what": "OOM-killed", "why": "other", "numbers": {"memory_limit": "8Mi"}}], None),
    ],
)
def test_after_a_resize_only_the_nodes_story_has_the_earlier_limit(story: list[Any], then: str | None) -> None:
    resized = pod(
        RUNNING, ended(), limits="64Mi", managedFields=[{"subresource": "resize", "time": rfc3339(time.time())}]
    )
    [kill] = oom_kills(resized, story)
    assert (kill.limit_then, kill.limit_now) == (then, "64Mi")
    if then:
        assert oom_lines(resized, story)[0].endswith("Its limit is 64Mi now.")


def test_a_resize_before_the_kill_does_not_hide_the_limit() -> None:
    earlier = [{"subresource": "resize", "time": rfc3339(time.time() - 3600)}]
    [kill] = oom_kills(pod(RUNNING, ended(), managedFields=earlier))
    assert kill.limit_then == "32Mi"


def test_states_are_worded_as_kubectl_names_them() -> None:
    assert state_words({"waiting": {"reason": "CrashLoopBackOff"}}) == "Waiting: CrashLoopBackOff"
    assert state_words(ended("Error")) == "Error 10s ago (exit code 137)"
    assert state_words({}) == "-"
    lost = {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137, "finishedAt": None}}
    assert state_words(lost) == "ContainerStatusUnknown (exit code 137)"


def test_sidecars_and_init_containers_are_labelled() -> None:
    spec = {"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "c"}]}
    labels = [item.label for item in containers_of({"metadata": {"name": "p"}, "spec": spec})]
    assert labels == ["i (init)", "s (sidecar)", "c"]
