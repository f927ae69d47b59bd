"""Tracks resizes that are applied in the kernel but not yet confirmed by the runtime, for the passes over a pod.

The status reports the kernel's values as soon as they are set. The resize is complete, and its Event is sent, once the
runtime has confirmed it. A confirmation that takes long is reported as PodResizeInProgress meanwhile. A runtime that
refuses has already restored the kernel's former values: the actuated sizes are restored too, and the resize is applied
again step by step, which fails with the runtime's reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from podfit.agent.actuation import attempts
from podfit.agent.decide.pod import restored
from podfit.agent.decide.resize import kernel, settle
from podfit.agent.pods.observe import Snapshot, observe
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import NotFound
from podfit.api.resize.states import Actuated, effective
from podfit.kit.clock import Clock

if TYPE_CHECKING:
    from podfit.agent.actuation.actuator import Actuator
    from podfit.agent.pods.ledger import Ledger

GRACE_S = 0.1
"""If the confirmation arrives within this time, no condition is reported: it would be removed at once."""


def awaited(record: PodRecord, before: Actuated) -> None:
    """Records that the kernel has a new size which the runtime has yet to confirm; `before` was actuated until now."""
    record.before_resize = before


class Confirmation:
    def __init__(self, runtime: Runtime, ledger: Ledger, actuator: Actuator, clock: Clock) -> None:
        self._runtime, self._ledger, self._actuator, self._clock = runtime, ledger, actuator, clock

    async def observe(self, record: PodRecord) -> Snapshot:
        """Takes a snapshot of the pod. If a further resize is due, waits for the confirmation of the previous one
        first."""
        snapshot = await observe(record, self._ledger, self._runtime)
        answers, uid = self._runtime.confirmations, record.uid
        if answers.outstanding(uid):
            if settle.in_progress(record.pod, snapshot.allocated, snapshot.actuated, snapshot.running):
                await answers.wait(uid)
            if answers.refused(uid):
                answers.settle(uid)
                await self._restore(record, snapshot)
                snapshot = await observe(record, self._ledger, self._runtime)
        return snapshot

    def outstanding(self, record: PodRecord) -> bool:
        """Whether a resize that is already applied is not confirmed yet."""
        if not self._runtime.confirmations.outstanding(record.uid):
            record.before_resize = record.unconfirmed_since = None
            return False
        if record.unconfirmed_since is None:
            record.unconfirmed_since = self._clock.monotonic()
        return True

    async def _restore(self, record: PodRecord, snapshot: Snapshot) -> None:
        """Records the sizes that the kernel has again as actuated."""
        before, record.before_resize, record.unconfirmed_since = record.before_resize, None, None
        attempts.mark_unverified(record)
        for name, container in snapshot.running.items():
            try:
                limits = await self._runtime.container_limits(container.id)
            except NotFound:
                continue
            former = before.containers.get(name) if before is not None else None
            believed = snapshot.actuated.containers.get(name)
            if former is not None and kernel.agrees(former, limits):
                self._actuator.found_container(record.uid, name, former)
            elif believed is None or not kernel.agrees(believed, limits):
                allocated = snapshot.allocated
                wanted = effective(allocated.containers.get(name), allocated.pod)
                self._actuator.found_container(record.uid, name, restored.actuated(wanted, believed, limits))
        if before is not None:
            self._actuator.found_pod(record.uid, before.pod)
        record.story.add("not actuated", "the runtime refused the resize")


def grace_left_s(record: PodRecord, now: float) -> float:
    """The seconds for which a missing confirmation is not reported; `now` is monotonic."""
    return 0.0 if record.unconfirmed_since is None else record.unconfirmed_since + GRACE_S - now
