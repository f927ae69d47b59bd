"""Writes the pod's status, and offers resources freed by a completed decrease."""

from __future__ import annotations

from podfit.agent.actuation import confirmation
from podfit.agent.phases.context import PodContext
from podfit.agent.phases.deadline import deadline_s
from podfit.agent.phases.outcome import Outcome, requeue
from podfit.reconcile.result import DONE, Requeue, earliest


async def report(pod: PodContext) -> Outcome:
    await pod.report(pod.next.initialized or pod.initialized)
    pod.parts.resizing.allocator.recount(pod.record)
    grace_left_s = confirmation.grace_left_s(pod.record, pod.parts.core.clock.monotonic())
    outcome = requeue(max(0.0, grace_left_s), "a resize is not confirmed yet")
    left_s = deadline_s(pod)
    return earliest(outcome, DONE if left_s is None else Requeue(left_s, "the pod's deadline"))
