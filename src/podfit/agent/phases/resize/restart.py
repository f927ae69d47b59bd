"""Plans the resize that is due, and stops containers that have to restart for it (resizePolicy RestartContainer)."""

from __future__ import annotations

from podfit.agent.actuation import attempts
from podfit.agent.containers.stopper import STOP
from podfit.agent.decide.resize import actuate, settle
from podfit.agent.phases.context import PodContext
from podfit.agent.phases.outcome import Outcome, requeue
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import NotFound
from podfit.reconcile.result import DONE


async def restart(pod: PodContext) -> Outcome:
    record, core = pod.record, pod.parts.core
    if not _is_due(pod):
        return DONE
    pod.resized = True
    snapshot = pod.snapshot
    if pause_s := attempts.pause_s(record, snapshot.allocated, core.clock.monotonic()):
        return requeue(pause_s, "a failed resize is retried")
    try:
        pod_now = await core.runtime.pod_limits(pod.uid)
    except NotFound:
        return DONE
    pod.plan = plan = actuate.plan(
        record.pod,
        record.qos,
        snapshot.allocated,
        snapshot.actuated,
        snapshot.running,
        () if pod.terminating else pod.next.start,
        pod_now,
        record.unverified,
        record.sized(snapshot.allocated),
    )
    if (plan.restart or record.restarting) and not pod.terminating:
        await _restart(pod, plan.restart)
    return DONE


def _is_due(pod: PodContext) -> bool:
    """Whether a resize is due. A terminating pod gets the granted size as long as its containers run, but without a
    restart."""
    if not pod.terminating:
        return not pod.next.over
    snapshot = pod.snapshot
    return (
        bool(snapshot.running)
        and not pod.gone
        and settle.in_progress(pod.record.pod, snapshot.allocated, snapshot.actuated, snapshot.running)
    )


async def _restart(pod: PodContext, planned: tuple[str, ...]) -> None:
    record, restarts = pod.record, pod.parts.resizing.restarts
    names = restarts.due(record, pod.snapshot, planned)
    if names:
        await restarts.begin(record, pod.snapshot, names)
    for name in names:
        message = f"Container {name} resize requires restart"
        pod.parts.containers.stopper.stop(record, pod.snapshot, name, record.grace_s, message)


def being_stopped(record: PodRecord) -> bool:
    """Whether a container that restarts for a resize has not exited yet."""
    return bool(record.restarting) and any(record.jobs.running(f"{STOP}{name}") for name in record.restarting)
