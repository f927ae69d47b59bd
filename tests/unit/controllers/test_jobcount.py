"""Counting a Job's pods."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.api.indexes import Indexes
from podfit.controllers.workloads.jobs.jobcount import (
    failure_action,
    is_complete,
    is_pod_failed,
    matched_success,
    over_backoff,
    tally,
    wanted_active,
)
from podfit.controllers.workloads.jobs.jobverdict import conclude, declare, verdict


@given(st.integers(0, 10), st.integers(0, 10), st.integers(0, 12))
def test_a_job_never_runs_more_pods_than_are_still_needed(parallelism: int, completions: int, succeeded: int) -> None:
    spec = {"parallelism": parallelism, "completions": completions}
    wanted = wanted_active(spec, 0, succeeded)
    assert 0 <= wanted <= parallelism and wanted + min(succeeded, completions) <= completions


def test_a_work_queue_job_starts_nothing_new_after_the_first_success() -> None:
    assert wanted_active({"parallelism": 3}, 2, 1) == 2
    assert is_complete({"parallelism": 3}, 0, 1) and not is_complete({"parallelism": 3}, 1, 1)


@pytest.mark.parametrize(
    ("rules", "done", "expected"),
    [
        ([{"succeededIndexes": "0,2-3"}], {0, 2}, None),
        ([{"succeededIndexes": "0,2-3"}], {0, 1, 2, 3}, 0),
        ([{"succeededCount": 2}], {5}, None),
        ([{"succeededCount": 2}], {5, 9}, 0),
        ([{"succeededIndexes": "0-4", "succeededCount": 1}], {7}, None),
        ([{"succeededIndexes": "0"}, {"succeededIndexes": "1-4", "succeededCount": 1}], {3}, 1),
        ([], {0, 1}, None),
    ],
)
def test_a_success_policy_is_met_by_its_first_fulfilled_rule(
    rules: list[dict[str, Any]], done: set[int], expected: int | None
) -> None:
    assert matched_success({"successPolicy": {"rules": rules}}, Indexes.of(done)) == expected


# --- failures


def pod(phase: str = "Failed", *, deleted: bool = False, code: int = 0, **status: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": "p", "namespace": "ns", "uid": "u"}
    if deleted:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    ended = [{"name": "c", "state": {"terminated": {"exitCode": code}}}]
    return {"metadata": meta, "status": {"phase": phase, "containerStatuses": ended, **status}}


def policy(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"podFailurePolicy": {"rules": list(rules)}}


def test_a_failure_rule_says_which_container_or_condition_it_matched() -> None:
    codes = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    assert failure_action(policy({"action": "Ignore", "onPodConditions": []}, codes), pod(code=42)) == (
        "FailJob",
        "Container c for pod ns/p failed with exit code 42 matching FailJob rule at index 1",
    )
    target = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    hit = pod(conditions=[{"type": "DisruptionTarget", "status": "True"}])
    why = "Pod ns/p has condition DisruptionTarget matching FailJob rule at index 0"
    assert failure_action(policy(target), hit) == ("FailJob", why)
    assert failure_action(policy(codes, target), pod(code=1)) == ("", "")


def test_a_deleted_pod_has_failed_unless_the_job_waits_for_its_end() -> None:
    going = pod("Running", deleted=True)
    assert is_pod_failed({}, going) and not is_pod_failed({"podReplacementPolicy": "Failed"}, going)
    assert not is_pod_failed({}, pod("Succeeded", deleted=True)) and is_pod_failed(policy({}), pod("Failed"))


def test_restarts_of_all_containers_count_against_the_limit() -> None:
    spec = {"backoffLimit": 3, "template": {"spec": {"restartPolicy": "OnFailure"}}}
    reported = [{"name": "a", "restartCount": 1}, {"name": "b", "restartCount": 1}]
    restarted = pod("Running", containerStatuses=reported, initContainerStatuses=[{"name": "i", "restartCount": 1}])
    assert over_backoff(spec, 0, (restarted,))


def test_what_was_declared_stays_and_is_concluded_with_the_same_words() -> None:
    job: dict[str, Any] = {"spec": {"backoffLimit": 0, "completions": 1}, "status": {"failed": 1}}
    found = verdict(job, [], tally([]), 0, 1, 0.0)
    assert found is not None and (found.type, found.reason) == ("Failed", "BackoffLimitExceeded")
    declare(job["status"], found, 0.0)
    assert [condition["type"] for condition in job["status"]["conditions"]] == ["FailureTarget"]
    job["spec"]["backoffLimit"] = 5
    assert verdict(job, [], tally([]), 1, 1, 0.0) == found
    conclude(job["status"], found, 9.0)
    assert [condition["type"] for condition in job["status"]["conditions"]] == ["FailureTarget", "Failed"]
    assert "completionTime" not in job["status"]


def test_a_suspended_job_does_not_run_into_its_deadline() -> None:
    job = {
        "spec": {"activeDeadlineSeconds": 1, "completions": 1},
        "status": {"startTime": "1970-01-01T00:00:00Z"},
    }
    late = verdict(job, [], tally([]), 0, 0, 100.0)
    assert late is not None and late.reason == "DeadlineExceeded"
    job["spec"]["suspend"] = True
    assert verdict(job, [], tally([]), 0, 0, 100.0) is None
