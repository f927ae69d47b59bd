"""Reconciles one pod: a pass runs the phases in order. Level-triggered: safe to repeat, safe to kill between any two
lines.

Desired → Allocated is decided for all pods of the node together, in `allocation`; these phases carry out the rest of a
resize.
"""

from __future__ import annotations

from collections.abc import Mapping

from podfit.agent.phases.admit import admit
from podfit.agent.phases.containers.migrate import migrate
from podfit.agent.phases.containers.probe import probe
from podfit.agent.phases.containers.refresh_volumes import refresh_volumes
from podfit.agent.phases.containers.start_containers import start_containers
from podfit.agent.phases.containers.start_sandbox import start_sandbox
from podfit.agent.phases.containers.terminate import terminate
from podfit.agent.phases.context import NodeParts, Phase, PodContext
from podfit.agent.phases.deadline import enforce_deadline
from podfit.agent.phases.finalize import finalize
from podfit.agent.phases.observe import observe
from podfit.agent.phases.outcome import Stop
from podfit.agent.phases.report import report
from podfit.agent.phases.resize.actuate import actuate
from podfit.agent.phases.resize.restart import restart
from podfit.agent.phases.resize.settle import settle
from podfit.agent.pods.record import PodRecord
from podfit.reconcile.result import DONE, Result, earliest

PHASES: tuple[Phase, ...] = (
    admit,
    finalize,
    observe,
    enforce_deadline,
    migrate,
    start_sandbox,
    restart,
    actuate,
    start_containers,
    settle,
    terminate,
    probe,
    report,
    refresh_volumes,
)


async def reconcile(pod: PodContext) -> Result:
    """Runs the phases in order. A phase may end the pass (Stop) or ask for another one (Requeue); the earliest wins."""
    result: Result = DONE
    for phase in PHASES:
        outcome = await phase(pod)
        if isinstance(outcome, Stop):
            return outcome.result
        if outcome is not DONE:
            result = earliest(result, outcome)
    return result


class Loop:
    def __init__(self, records: Mapping[str, PodRecord], parts: NodeParts) -> None:
        self._records, self._parts = records, parts

    async def reconcile(self, uid: str) -> Result:
        record, core = self._records.get(uid), self._parts.core
        if record is None:
            return DONE
        kind, began = record.next_pass(), core.clock.monotonic()
        try:
            return await reconcile(PodContext(record, self._parts))
        finally:
            core.metrics.worker_seconds.labels(kind).observe(core.clock.monotonic() - began)
            record.rest()
