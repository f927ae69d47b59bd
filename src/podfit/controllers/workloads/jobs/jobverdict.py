"""Decides whether a Job has ended. The outcome is declared first, and becomes final when its last pod is gone. Pure."""

from __future__ import annotations

from typing import NamedTuple

from podfit.api.indexes import Indexes
from podfit.api.objects import Object
from podfit.controllers.workloads.jobs.jobcount import (
    PodCounts,
    failure_action,
    is_complete,
    is_pod_failed,
    matched_success,
    over_backoff,
)
from podfit.controllers.workloads.podstate import condition, set_condition
from podfit.kit.clock import parse_rfc3339, rfc3339

COMPLETE, FAILED = "Complete", "Failed"
_TARGETS = {COMPLETE: "SuccessCriteriaMet", FAILED: "FailureTarget"}


class JobVerdict(NamedTuple):
    type: str
    """Complete or Failed."""
    reason: str
    message: str


def verdict(
    job: Object, pods: list[Object], counts: PodCounts, succeeded: int, failed: int, now: float
) -> JobVerdict | None:
    """The outcome of the Job; None while it runs. A declared outcome is final."""
    spec, status = job["spec"], job.get("status") or {}
    declared = _declared(job)
    if declared is not None:
        return declared
    for pod in pods:
        if is_pod_failed(spec, pod):
            action, why = failure_action(spec, pod)
            if action == "FailJob":
                return JobVerdict(FAILED, "PodFailurePolicy", why)
    if over_backoff(spec, failed, counts.active):
        return JobVerdict(FAILED, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    if _is_past_deadline(spec, status, now):
        return JobVerdict(FAILED, "DeadlineExceeded", "Job was active longer than specified deadline")
    lost, most = len(Indexes.parse(status.get("failedIndexes", ""))), spec.get("maxFailedIndexes")
    if most is not None and lost > int(most):
        message = "Job has exceeded the specified maximal number of failed indexes"
        return JobVerdict(FAILED, "MaxFailedIndexesExceeded", message)
    if lost and lost + succeeded >= int(spec.get("completions", 1)):
        return JobVerdict(FAILED, "FailedIndexes", "Job has failed indexes")
    rule = matched_success(spec, Indexes.parse(status.get("completedIndexes", "")))
    if rule is not None:
        return JobVerdict(COMPLETE, "SuccessPolicy", f"Matched rules at index {rule}")
    if is_complete(spec, len(counts.active), succeeded):
        return JobVerdict(COMPLETE, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def _is_past_deadline(spec: Object, status: Object, now: float) -> bool:
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is None or not status.get("startTime") or spec.get("suspend"):
        return False
    return now >= parse_rfc3339(status["startTime"]) + int(deadline)


def _declared(job: Object) -> JobVerdict | None:
    for type, target in _TARGETS.items():
        found = condition(job, target)
        if found is not None and found["status"] == "True":
            return JobVerdict(type, found.get("reason", ""), found.get("message", ""))
    return None


def declare(status: Object, found: JobVerdict, now: float) -> None:
    """Declares the Job's outcome in its status; it is final, whatever the last pods do."""
    _add(status, _TARGETS[found.type], found, now)


def conclude(status: Object, found: JobVerdict, now: float) -> None:
    _add(status, found.type, found, now)
    if found.type == COMPLETE:
        status["completionTime"] = rfc3339(now)


def _add(status: Object, type: str, found: JobVerdict, now: float) -> None:
    conditions = status.get("conditions") or []
    if any(condition["type"] == type and condition["status"] == "True" for condition in conditions):
        return
    stamp = rfc3339(now)
    made = {"type": type, "status": "True", "lastProbeTime": stamp, "lastTransitionTime": stamp}
    status["conditions"] = set_condition(conditions, {**made, "reason": found.reason, "message": found.message})
