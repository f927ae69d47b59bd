"""Resizes that the kernel has and the runtime has not answered: how a pass over the pod meets them.

The status shows what the kernel has as soon as it has it. The resize is complete, and its Event sent, when the runtime
has accepted it. An answer that takes its time is shown as PodResizeInProgress meanwhile. If the runtime refuses, it has
put the kernel's former values back: what was actuated is put back too, and the resize is made again step by step, which
fails with the runtime's reason.
"""

from __future__ import annotations

from podfit.agent.adopt import from_kernel
from podfit.agent.decide import kernel, settle
from podfit.agent.decide.states import effective
from podfit.agent.ledger import Ledger
from podfit.agent.observe import Snapshot, observe
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.base import NotFound, Runtime
from podfit.kit.clock import Clock

PATIENCE_S = 0.1
"""An answer within this is not worth a condition that comes and goes."""


class Answers:
    def __init__(self, runtime: Runtime, ledger: Ledger, clock: Clock) -> None:
        self._runtime, self._ledger, self._clock = runtime, ledger, clock

    async def observe(self, record: PodRecord) -> Snapshot:
        """One look at the pod; a further resize waits for the answer to the one before."""
        snapshot = await observe(record, self._ledger, self._runtime)
        answers, uid = self._runtime.confirmations, record.uid
        if answers.outstanding(uid):
            if settle.in_progress(record.pod, snapshot.allocated, snapshot.actuated, snapshot.running):
                await answers.wait(uid)
            if answers.refused(uid):
                answers.settle(uid)
                await self._put_back(record, snapshot)
                snapshot = await observe(record, self._ledger, self._runtime)
        return snapshot

    def outstanding(self, record: PodRecord) -> bool:
        """Whether a resize that is applied has still to be answered."""
        if not self._runtime.confirmations.outstanding(record.uid):
            record.before_resize = record.unanswered_since = None
            return False
        if record.unanswered_since is None:
            record.unanswered_since = self._clock.monotonic()
        return True

    def look_again(self, record: PodRecord) -> list[float]:
        """The seconds after which an answer that has not come is shown as outstanding."""
        left_s = patience_s(record, self._clock.monotonic())
        return [left_s] if left_s > 0 else []

    async def _put_back(self, record: PodRecord, snapshot: Snapshot) -> None:
        """Notes as actuated what the kernel has again."""
        before, record.before_resize, record.unanswered_since, record.doubtful = record.before_resize, None, None, True
        for name, container in snapshot.running.items():
            try:
                limits = await self._runtime.container_limits(container.id)
            except NotFound:
                continue
            former = before.containers.get(name) if before is not None else None
            believed = snapshot.actuated.containers.get(name)
            if former is not None and kernel.agrees(former, limits):
                self._ledger.actuate(record.uid, name, former)
            elif believed is None or not kernel.agrees(believed, limits):
                allocated = snapshot.allocated
                wanted = effective(allocated.containers.get(name), allocated.pod)
                self._ledger.actuate(record.uid, name, from_kernel(wanted, believed, limits))
        if before is not None:
            self._ledger.actuate_pod(record.uid, before.pod)
        record.story.tell("not actuated", "the runtime refused the resize")


def patience_s(record: PodRecord, now: float) -> float:
    """The seconds for which an answer that has not come is no news; `now` is monotonic."""
    return 0.0 if record.unanswered_since is None else record.unanswered_since + PATIENCE_S - now
