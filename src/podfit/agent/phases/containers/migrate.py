"""Follows the migration of a VM to another node: until it ends, nothing of the pod is started, stopped or resized."""

from __future__ import annotations

from podfit.agent.phases.context import PodContext
from podfit.agent.phases.outcome import Outcome, Stop, requeue
from podfit.agent.phases.resize.settle import settle
from podfit.api.pods.migrations import ANNOTATION
from podfit.reconcile.result import DONE


async def migrate(pod: PodContext) -> Outcome:
    record, departures = pod.record, pod.parts.departures
    if pod.terminating or ANNOTATION not in (record.pod["metadata"].get("annotations") or {}):
        return DONE
    migration = departures.leaving(record)
    if migration is None:
        await departures.settle(record)
        return DONE
    wait_s = departures.follow(record, migration)
    await settle(pod)
    await pod.report(pod.initialized)
    return Stop(requeue(wait_s, "a migration is in progress"))
