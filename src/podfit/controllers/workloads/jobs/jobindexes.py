"""Indexed Jobs with a backoff limit per index: which indexes have failed, and the failure counts kept in pods. Pure.

An annotation of a pod contains how often its index failed before. So the newest failed pod of an index holds the count
for that index, and is kept until its replacement exists.
"""

from __future__ import annotations

from podfit.api.indexes import Indexes
from podfit.api.objects import Object
from podfit.controllers.workloads.jobs.jobcount import failure_action, index_of, is_pod_failed

FAILURES = "batch.kubernetes.io/job-index-failure-count"


def has_index_limit(spec: Object) -> bool:
    return spec.get("completionMode") == "Indexed" and spec.get("backoffLimitPerIndex") is not None


def _failed(spec: Object, pods: list[Object]) -> list[Object]:
    return [pod for pod in pods if is_pod_failed(spec, pod)]


def failures_before(pod: Object) -> int:
    text = str((pod["metadata"].get("annotations") or {}).get(FAILURES, "0"))
    return int(text) if text.isdigit() else 0


def failed_indexes(spec: Object, pods: list[Object]) -> set[int]:
    """Indexes whose pods failed more often than allowed, or in a way that the Job's policy treats as final."""
    found = set()
    for pod in _failed(spec, pods):
        index, action = index_of(pod), failure_action(spec, pod)[0]
        spent = failures_before(pod) >= int(spec["backoffLimitPerIndex"]) and action != "Ignore"
        if index is not None and (spent or action == "FailIndex"):
            found.add(index)
    return found


def failures_so_far(spec: Object, pods: list[Object]) -> dict[int, int]:
    """The number of failures of each index, according to its pods."""
    found: dict[int, int] = {}
    for pod in _failed(spec, pods):
        index = index_of(pod)
        if index is not None:
            count = failures_before(pod) + (failure_action(spec, pod)[0] != "Ignore")
            found[index] = max(count, found.get(index, 0))
    return found


def held(spec: Object, pods: list[Object], settled: Indexes) -> set[str]:
    """UIDs of failed pods that hold the only failure count of an index that is neither completed nor failed."""
    newest: dict[int, Object] = {}
    replaced = {index_of(pod) for pod in pods if not is_pod_failed(spec, pod)}
    for pod in _failed(spec, pods):
        index = index_of(pod)
        if index is None or index in settled or index in replaced:
            continue
        if index not in newest or failures_before(pod) > failures_before(newest[index]):
            newest[index] = pod
    return {str(pod["metadata"]["uid"]) for pod in newest.values()}
