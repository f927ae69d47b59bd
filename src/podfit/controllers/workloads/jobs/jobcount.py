"""The next step of a Job, from its pods. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from podfit.api.indexes import Indexes
from podfit.api.objects import Object
from podfit.controllers.workloads.podstate import is_deleting, is_ready, phase

INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True, slots=True)
class PodCounts:
    """The counts of a Job's pods; pods that are gone are in the status."""

    active: tuple[Object, ...]
    succeeded: tuple[Object, ...]
    failed: tuple[Object, ...]
    terminating: int
    ready: int


def tally(pods: list[Object]) -> PodCounts:
    going = [pod for pod in pods if is_deleting(pod) and phase(pod) not in ("Succeeded", "Failed")]
    active = [pod for pod in pods if not is_deleting(pod) and phase(pod) not in ("Succeeded", "Failed")]
    return PodCounts(
        tuple(active),
        tuple(pod for pod in pods if phase(pod) == "Succeeded"),
        tuple(pod for pod in pods if phase(pod) == "Failed"),
        len(going),
        sum(map(is_ready, active)),
    )


def index_of(pod: Object) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(INDEX)
    return int(text) if text is not None and text.isdigit() else None


def wanted_active(spec: Object, active: int, succeeded: int, lost: int = 0) -> int:
    """The number of pods that should be running now; `lost` indexes are not retried any more."""
    parallelism = int(spec.get("parallelism", 1))
    completions = spec.get("completions")
    if completions is None:
        # A work queue: once a pod has succeeded, no new ones are created; running ones finish.
        return active if succeeded else parallelism
    return max(0, min(parallelism, int(completions) - succeeded - lost))


def is_complete(spec: Object, active: int, succeeded: int) -> bool:
    completions = spec.get("completions")
    if active:
        return False
    return succeeded > 0 if completions is None else succeeded >= int(completions)


def is_pod_failed(spec: Object, pod: Object) -> bool:
    """A deleted pod counts as failed, unless the Job waits for its outcome."""
    if phase(pod) == "Failed":
        return True
    if waits_for_the_end(spec):
        return False
    return is_deleting(pod) and phase(pod) != "Succeeded"


def waits_for_the_end(spec: Object) -> bool:
    """Whether only failed pods are replaced, not terminating ones."""
    return spec.get("podReplacementPolicy") == "Failed" or bool(spec.get("podFailurePolicy"))


def matched_success(spec: Object, done: Indexes) -> int | None:
    """The first rule of the Job's successPolicy that the completed indexes meet."""
    for number, rule in enumerate((spec.get("successPolicy") or {}).get("rules") or []):
        named = Indexes.parse(rule["succeededIndexes"]) if rule.get("succeededIndexes") else None
        counting = done if named is None else done & named
        needed = rule.get("succeededCount")
        if len(counting) >= (int(needed) if needed is not None else len(named or Indexes())):
            return number
    return None


def over_backoff(spec: Object, failed: int, active: tuple[Object, ...]) -> bool:
    limit = int(spec.get("backoffLimit", 6))
    if failed > limit:
        return True
    template = (spec.get("template") or {}).get("spec") or {}
    if template.get("restartPolicy") != "OnFailure":
        return False
    total = sum(_restarts(pod) for pod in active if phase(pod) in ("Running", "Pending"))
    return total > 0 if limit == 0 else total >= limit


def _restarts(pod: Object) -> int:
    """The number of restarts of all containers of the pod together."""
    status = pod.get("status") or {}
    listed = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    return sum(int(container.get("restartCount", 0)) for container in listed)


def failure_action(spec: Object, pod: Object) -> tuple[str, str]:
    """The result of the Job's podFailurePolicy for a failed pod: (action or "", why)."""
    name = f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
    for number, rule in enumerate((spec.get("podFailurePolicy") or {}).get("rules") or []):
        action, which = str(rule["action"]), f"matching {rule['action']} rule at index {number}"
        if rule.get("onExitCodes"):
            ended = _ended_with(rule["onExitCodes"], pod)
            if ended is not None:
                return action, f"Container {ended[0]} for pod {name} failed with exit code {ended[1]} {which}"
        else:
            found = _condition_of(rule.get("onPodConditions") or [], pod)
            if found:
                return action, f"Pod {name} has condition {found} {which}"
    return "", ""


def _ended_with(rule: Object, pod: Object) -> tuple[str, int] | None:
    """The container that exited as in the rule, and its exit code."""
    status = pod.get("status") or {}
    for container_status in [*(status.get("containerStatuses") or []), *(status.get("initContainerStatuses") or [])]:
        ended = (container_status.get("state") or {}).get("terminated")
        if not ended or (rule.get("containerName") and rule["containerName"] != container_status["name"]):
            continue
        code = int(ended.get("exitCode", 0))
        if code and (code in rule["values"]) == (rule["operator"] == "In"):
            return str(container_status["name"]), code
    return None


def _condition_of(patterns: list[Object], pod: Object) -> str:
    wanted = {(pattern["type"], pattern.get("status", "True")) for pattern in patterns}
    have = (pod.get("status") or {}).get("conditions") or []
    return next(
        (str(condition["type"]) for condition in have if (condition["type"], condition["status"]) in wanted), ""
    )
