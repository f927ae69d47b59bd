"""Takes a snapshot of the pod, and records containers that exited."""

from __future__ import annotations

from podfit.agent.containers import exits
from podfit.agent.phases.context import PodContext
from podfit.agent.phases.outcome import Outcome
from podfit.reconcile.result import DONE


async def observe(pod: PodContext) -> Outcome:
    record, parts = pod.record, pod.parts
    pod.snapshot = await parts.resizing.confirmation.observe(record)
    if parts.core.config.on_disk and pod.snapshot.state is not None:
        exits.collect_messages(record, pod.snapshot.state, parts.containers.sandboxes.maker)
    exits.record_exits(record, pod.snapshot)
    return DONE
