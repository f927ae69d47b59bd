"""Actuated → Actual: completes the resize once spec, allocation and cgroup agree."""

from __future__ import annotations

from podfit.agent.actuation import attempts
from podfit.agent.decide.resize import settle as decide
from podfit.agent.phases.context import PodContext
from podfit.agent.phases.outcome import Outcome
from podfit.reconcile.result import DONE


async def settle(pod: PodContext) -> Outcome:
    record, snapshot, resizing = pod.record, pod.snapshot, pod.parts.resizing
    if pod.terminating and (pod.gone or not (snapshot.running or pod.resized)):
        return DONE
    incomplete = decide.in_progress(record.pod, snapshot.allocated, snapshot.actuated, snapshot.running)
    failed = record.failed is snapshot.allocated and bool(snapshot.running)
    if failed:
        return DONE
    if incomplete:
        resizing.conditions.begin(record)
        return DONE
    if not resizing.confirmation.outstanding(record) and not record.restarting:
        _complete(pod)
    return DONE


def _complete(pod: PodContext) -> None:
    record, resizing = pod.record, pod.parts.resizing
    generation = resizing.conditions.complete(record)
    if generation is None:
        return
    resizing.memory_waits.forget(record)
    attempts.settled(record)
    record.story.add("resized", "spec, allocation and cgroup agree", generation=generation)
    pod.parts.core.events.completed(record.pod, record.sized(pod.snapshot.allocated).rendered, generation)
