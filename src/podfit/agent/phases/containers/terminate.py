"""Stops the containers of a terminating pod, and sidecars of a completed one; then finishes the pod.

Every pod ends here, whether it was deleted or evicted, exceeded its deadline, or completed its work.
"""

from __future__ import annotations

from podfit.agent.actuation import attempts
from podfit.agent.phases.context import PodContext
from podfit.agent.phases.outcome import Outcome, Stop, requeue
from podfit.reconcile.result import DONE, Result


async def terminate(pod: PodContext) -> Outcome:
    if pod.terminating:
        return await _terminate(pod)
    if pod.next.over:
        return await _complete(pod)
    return DONE


async def _complete(pod: PodContext) -> Outcome:
    """Handles a pod that has done its work: its sidecars stop, then its sandbox. The object stays until a client
    deletes it."""
    record = pod.record
    if pod.next.stop or pod.snapshot.running:
        pod.parts.containers.stopper.stop_all(record, pod.snapshot, record.grace_s)
        await pod.report(pod.next.initialized)
        return Stop()
    await pod.parts.core.runtime.stop_pod(pod.uid)
    await _finish(pod, pod.next.initialized)
    return Stop()


async def _terminate(pod: PodContext) -> Outcome:
    record, containers = pod.record, pod.parts.containers
    termination = record.termination
    assert termination is not None
    containers.probing.stop(record)
    if termination.grace_s < record.stop_grace_s:
        containers.stopper.shorten(record)
    record.stop_grace_s = termination.grace_s
    if not containers.stopper.stop_all(record, pod.snapshot, termination.grace_s):
        if not termination.gone:
            await _report_running(pod)
        return Stop(_retry(pod))
    await pod.parts.core.runtime.stop_pod(pod.uid)
    await _finish(pod, pod.initialized)
    if termination.gone or record.pod["metadata"].get("deletionTimestamp"):
        await pod.parts.finalizer.finalize(record)
    return Stop()


def _retry(pod: PodContext) -> Result:
    """Requests another pass for a failed resize: a granted resize is applied as long as containers run."""
    if not pod.resized:
        return DONE
    pause_s = attempts.pause_s(pod.record, pod.snapshot.allocated, pod.parts.core.clock.monotonic())
    return requeue(pause_s, "a failed resize is retried")


async def _report_running(pod: PodContext) -> None:
    """Reports only which containers of a terminating pod still run, and the state of its resize."""
    record = pod.record
    current = (frozenset(pod.snapshot.running), pod.snapshot.allocated, record.resize, record.generation)
    if record.reported_termination != current:
        await pod.report(True)
        record.reported_termination = current if record.rejected_status is None else None
        pod.parts.resizing.allocator.recount(record)


async def _finish(pod: PodContext, initialized: bool) -> None:
    """Handles a pod whose containers have all exited: its resources are free, and its final status is written."""
    record, resizing = pod.record, pod.parts.resizing
    first = not record.finished
    record.finished = record.unreported = True
    resizing.conditions.complete(record)
    resizing.allocator.drop(pod.uid)
    resizing.cpus.release(pod.uid)
    await pod.observe()
    if first:
        record.story.add("over", "nothing runs any more")
        resizing.allocator.on_room_freed("pods_removed", pod.uid)
    if not pod.gone:
        await pod.report(initialized)
    record.unreported = record.rejected_status is not None
    pod.parts.volumes.release(pod.uid)
