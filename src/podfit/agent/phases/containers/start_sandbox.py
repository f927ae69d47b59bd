"""Creates the volumes and the sandbox of a pod that has none, and recreates a sandbox that was lost."""

from __future__ import annotations

import asyncio

from podfit.agent.phases.context import PodContext
from podfit.agent.phases.deadline import deadline_s
from podfit.agent.phases.outcome import Outcome, Stop
from podfit.agent.phases.resize.settle import settle
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.reconcile.result import DONE, Requeue

_REPORT_AFTER_S = 0.1


async def start_sandbox(pod: PodContext) -> Outcome:
    if pod.terminating or pod.next.over:
        return DONE
    sandboxes = pod.parts.containers.sandboxes
    if pod.snapshot.state is None:
        if missing_s := await sandboxes.mount(pod.record):
            return await _without_volumes(pod, missing_s)
        await _create(pod)
        await pod.observe()
    elif not pod.snapshot.sandbox:
        await sandboxes.create(pod.record, pod.snapshot)
        return Stop(Requeue(0.01, "sandbox recreated"))
    return DONE


async def _without_volumes(pod: PodContext, missing_s: float) -> Outcome:
    await settle(pod)
    await pod.report(pod.next.initialized)
    left_s = deadline_s(pod)
    return Stop(Requeue(missing_s if left_s is None else min(missing_s, left_s), "a volume is missing"))


async def _create(pod: PodContext) -> None:
    """Status is written only if this takes longer than 100 ms or fails: a fast start costs one write, not two."""
    work = asyncio.ensure_future(pod.parts.containers.sandboxes.create(pod.record, pod.snapshot))
    try:
        await asyncio.wait({work}, timeout=_REPORT_AFTER_S)
        if not work.done():
            await pod.report(pod.next.initialized)
        await work
    except (RuntimeFailure, OSError):
        await pod.report(pod.next.initialized)
        raise
    finally:
        work.cancel()
