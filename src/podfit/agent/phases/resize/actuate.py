"""Allocated → Actuated: applies the plan of the resize, and places containers on their CPUs."""

from __future__ import annotations

from podfit.agent.actuation import attempts
from podfit.agent.actuation.actuator import ActuationFailed
from podfit.agent.decide.resize.actuate import Plan
from podfit.agent.phases.context import PodContext
from podfit.agent.phases.outcome import Outcome, requeue
from podfit.agent.phases.resize.restart import being_stopped
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.reconcile.result import DONE, Result


async def actuate(pod: PodContext) -> Outcome:
    if not pod.resized:
        return DONE
    if pod.plan is not None:
        await _apply(pod, pod.plan)
    result = await _place(pod)
    if pod.terminating:
        await pod.observe()
    return result


async def _apply(pod: PodContext, plan: Plan) -> None:
    record, core = pod.record, pod.parts.core
    if not plan:
        attempts.succeeded(record)
    if not plan.steps or being_stopped(record):
        return
    began = core.clock.monotonic()
    try:
        await pod.parts.resizing.actuator.apply(record, plan, pod.snapshot)
    except ActuationFailed as failure:
        core.metrics.actuated(core.clock.monotonic() - began, False)
        attempts.mark_unverified(record)
        _failed(pod, failure)
        return
    core.metrics.actuated(core.clock.monotonic() - began, True)
    attempts.succeeded(record)


async def _place(pod: PodContext) -> Result:
    """Places the containers on their CPUs, unless the resize has to be retried first."""
    now = pod.parts.core.clock.monotonic()
    pause_s = attempts.pause_s(pod.record, pod.snapshot.allocated, now)
    if not pause_s:
        try:
            await pod.parts.resizing.cpus.apply(pod.uid, pod.snapshot.state)
        except RuntimeFailure as error:
            pause_s = _failed(pod, ActuationFailed(str(error)))
    return requeue(pause_s, "a failed resize is retried")


def _failed(pod: PodContext, failure: ActuationFailed) -> float:
    """Handles a failed actuation. The allocation stands, and is retried when usage falls or after a backoff, whose
    seconds are returned."""
    record, core, allocated = pod.record, pod.parts.core, pod.snapshot.allocated
    pause_s = attempts.failed(record, allocated, core.config.error_retry_s, core.clock.monotonic())
    generation = pod.parts.resizing.conditions.fail(record, str(failure))
    record.story.add("not actuated", str(failure), tries=record.failures)
    core.events.failed(record.pod, record.sized(allocated).rendered, generation, str(failure))
    if failure.below:
        pod.parts.resizing.memory_waits.watch(record, pod.snapshot, failure.below)
    return pause_s
