"""Ends the pass over a pod that was rejected or has not arrived yet; any other continues once its allocation is on
disk."""

from __future__ import annotations

from podfit.agent.phases.context import PodContext
from podfit.agent.phases.outcome import Outcome, Stop
from podfit.agent.pods.events import WARNING
from podfit.kit.process.oserrors import system_words
from podfit.reconcile.result import DONE


async def admit(pod: PodContext) -> Outcome:
    record, core = pod.record, pod.parts.core
    if record.coming and not pod.gone:
        if record.rejected is None and not core.ledger.is_durable(pod.uid):
            await _persist(pod)
        core.queue.on_observe(pod.uid)
        return Stop(await pod.parts.arrivals.run(record))
    if record.rejected is not None:
        await pod.parts.reporter.reject(record)
        if pod.terminating:
            await pod.parts.finalizer.finalize(record)
        return Stop()
    if not core.ledger.is_durable(pod.uid) or not pod.parts.resizing.cpus.is_durable(pod.uid):
        await _persist(pod)
    return DONE


async def _persist(pod: PodContext) -> None:
    """Persists the allocation before acting on it. If it cannot be written, the pod waits and an Event says why."""
    core = pod.parts.core
    try:
        await pod.parts.resizing.cpus.flush()
        await core.ledger.flush()
    except OSError as error:
        if pod.record.state is None:
            message = f"error making pod data directories: {system_words(error)}"
            core.events.emit(pod.record.pod, WARNING, "FailedToMakePodDataDirectories", message)
        raise
