"""Updates mounted ConfigMaps, Secrets, tokens and downward API files when their sources change."""

from __future__ import annotations

from podfit.agent.furnish.volumes.volumes import BadVolume
from podfit.agent.phases.context import PodContext
from podfit.agent.phases.outcome import Outcome
from podfit.agent.pods.events import WARNING
from podfit.reconcile.result import DONE, Requeue


async def refresh_volumes(pod: PodContext) -> Outcome:
    record, core, volumes = pod.record, pod.parts.core, pod.parts.volumes
    if not core.config.on_disk or not record.pod["spec"].get("volumes") or pod.snapshot.state is None:
        return DONE
    sized, ips = record.sized(pod.snapshot.allocated).pod, pod.snapshot.state.ips
    due_s = volumes.due_s(sized, ips)
    if due_s == 0.0:
        try:
            await volumes.prepare(sized, ips)
        except BadVolume as problem:
            for message in problem.messages:
                core.events.emit(record.pod, WARNING, "FailedMount", message)
        due_s = volumes.due_s(sized, ips)
    return DONE if due_s is None else Requeue(due_s, "mounted files are due for a refresh")
