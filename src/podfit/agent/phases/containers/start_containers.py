"""Starts the containers that are due, then takes another snapshot of the pod."""

from __future__ import annotations

from podfit.agent.backoff import CRASH_LOOP
from podfit.agent.containers.post_start import HOOK
from podfit.agent.containers.stopper import STOP
from podfit.agent.phases.context import PodContext
from podfit.agent.phases.outcome import Outcome, requeue
from podfit.agent.phases.resize.restart import being_stopped
from podfit.reconcile.result import DONE, Requeue, Result, earliest


async def start_containers(pod: PodContext) -> Outcome:
    if pod.terminating or pod.next.over:
        return DONE
    result: Result = DONE
    if pod.next.start or pod.next.later:
        result = await _start(pod)
    await pod.observe()
    return earliest(result, await _check_ports(pod))


async def _start(pod: PodContext) -> Result:
    record, containers = pod.record, pod.parts.containers
    result: Result = DONE
    for name, seconds in pod.next.later:
        if not record.jobs.running(f"{HOOK}{name}"):
            containers.backoff.report(record, name)
        result = earliest(result, Requeue(seconds, "a container waits for its backoff"))
    names = [name for name in pod.next.start if not record.jobs.running(f"{STOP}{name}")]
    if names and not being_stopped(record):
        for name in names:
            record.waiting.clear(name, CRASH_LOOP)
        wait_s = await containers.starter.start(record, pod.snapshot, tuple(names))
        result = earliest(result, requeue(wait_s, "a container could not be started"))
    return result


async def _check_ports(pod: PodContext) -> Result:
    record = pod.record
    before = dict(record.port_conflicts)
    wait_s = await pod.parts.containers.port_conflicts.check(record, pod.snapshot)
    if record.port_conflicts != before:
        await pod.observe()
    return requeue(wait_s, "declared ports are checked")
