"""Ends the pass over a finished pod, and removes what is left of a terminated one."""

from __future__ import annotations

from podfit.agent.phases.context import PodContext
from podfit.agent.phases.outcome import Outcome, Stop
from podfit.reconcile.result import DONE


async def finalize(pod: PodContext) -> Outcome:
    record, core = pod.record, pod.parts.core
    core.queue.on_observe(pod.uid)
    # Read from the ledger, which the next phase observes without an await in between.
    allocated = core.ledger.allocated(pod.uid) is not None
    if record.removed or (not allocated and pod.terminating):
        await pod.parts.finalizer.finalize(record)
        return Stop()
    if not allocated or (record.finished and not pod.terminating and not record.unreported):
        return Stop()
    return DONE
