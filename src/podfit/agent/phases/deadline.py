"""Terminates a pod that has been active longer than its activeDeadlineSeconds."""

from __future__ import annotations

from podfit.agent.phases.context import PodContext
from podfit.agent.phases.outcome import Outcome
from podfit.agent.pods import termination
from podfit.agent.pods.events import NORMAL
from podfit.kit.clock import parse_rfc3339
from podfit.reconcile.result import DONE

_MESSAGE = "Pod was active on the node longer than the specified deadline"


async def enforce_deadline(pod: PodContext) -> Outcome:
    if not pod.terminating and not pod.record.finished and deadline_s(pod) == 0.0:
        termination.deadline_exceeded(pod.record, _MESSAGE)
        pod.parts.core.events.emit(pod.record.pod, NORMAL, termination.DEADLINE_EXCEEDED, _MESSAGE)
    return DONE


def deadline_s(pod: PodContext) -> float | None:
    """The seconds until the deadline; None without a deadline, or before the pod's start is reported."""
    record, clock = pod.record, pod.parts.core.clock
    seconds = record.pod["spec"].get("activeDeadlineSeconds")
    if seconds is None or not record.start_time:
        return None
    now = clock.monotonic()
    if record.started_at is None:
        record.started_at = now - max(0.0, clock.now() - parse_rfc3339(record.start_time))
    return max(0.0, record.started_at + float(seconds) - now)
