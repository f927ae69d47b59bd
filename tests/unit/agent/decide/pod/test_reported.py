"""Containers that the runtime has lost: their exits are read from the API."""

from __future__ import annotations

from typing import Any

from podfit.agent.decide.pod.reported import reported_end
from podfit.agent.runtimes.values import EXITED

CONTAINER = {"name": "c"}
ENDED = {"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": "1970-01-01T00:00:09Z"}}


def pod(policy: str, state: dict[str, Any], listed: str = "containerStatuses") -> dict[str, Any]:
    shown = {"name": "c", "state": state, "restartCount": 4, "containerID": "x://id"}
    return {"spec": {"restartPolicy": policy}, "status": {listed: [shown]}}


def test_a_container_that_ended_permanently_is_not_run_again() -> None:
    found = reported_end(pod("Never", ENDED), CONTAINER)
    assert found is not None
    assert (found.id, found.attempt, found.state, found.exit_code, found.finished_at) == ("id", 4, EXITED, 3, 9.0)


def test_a_container_that_restarts_may_be_started() -> None:
    assert reported_end(pod("Always", ENDED), CONTAINER) is None
    assert reported_end(pod("OnFailure", ENDED), CONTAINER) is None


def test_a_container_that_was_running_has_ended_unseen() -> None:
    running = {"running": {"startedAt": "1970-01-01T00:00:05Z"}}
    found = reported_end(pod("Never", running), CONTAINER)
    assert found is not None
    assert (found.exit_code, found.reason, found.started_at) == (137, "ContainerStatusUnknown", 5.0)


def test_an_ephemeral_container_never_runs_twice() -> None:
    assert reported_end(pod("Always", ENDED, "ephemeralContainerStatuses"), CONTAINER) is not None


def test_a_container_that_never_began_may_be_started() -> None:
    assert reported_end(pod("Never", {"waiting": {"reason": "x"}}), CONTAINER) is None
    assert reported_end({"spec": {}}, CONTAINER) is None
