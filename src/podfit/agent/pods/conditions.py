"""Maintains the two resize conditions of each pod, and the metrics that count them. The only writer of
`record.resize`."""

from __future__ import annotations

from podfit.agent.decide.resize import conditions
from podfit.agent.metrics import AgentMetrics
from podfit.agent.pods.record import PodRecord
from podfit.api.resize.conditions import DEFERRED
from podfit.kit.clock import Clock


class Conditions:
    def __init__(self, metrics: AgentMetrics, clock: Clock) -> None:
        self._metrics, self._clock = metrics, clock

    def restore(self, record: PodRecord) -> None:
        """Restores the conditions from the API, so that times and messages survive a restart of the agent."""
        record.resize = conditions.from_status(record.pod.get("status") or {})
        if record.resize.pending is not None:
            self._metrics.pending_changed("", record.resize.pending.reason)
        if record.resize.in_progress is not None:
            self._metrics.in_progress.inc()

    def confirm(self, record: PodRecord, generation_before: int) -> None:
        """Applies the verdict to the new generation of a spec that changed without its resources."""
        record.resize = record.resize.confirmed(generation_before, record.generation)

    # --- PodResizePending
    def refuse(self, record: PodRecord, reason: str, message: str) -> bool:
        """Records that the resize is pending. True if the condition changed."""
        before = record.resize.pending
        record.resize = record.resize.refused(reason, message, record.generation, self._clock.now())
        self._metrics.pending_changed(before.reason if before else "", reason)
        return record.resize.pending != before

    def clear_pending(self, record: PodRecord) -> bool:
        """Removes the condition PodResizePending. True if there was one."""
        before = record.resize.pending
        if before is None:
            return False
        record.resize = record.resize.without_pending()
        self._metrics.pending_changed(before.reason, "")
        return True

    def grant(self, record: PodRecord) -> bool:
        """Moves the resize from pending to in progress. True if it was deferred before."""
        before = record.resize.pending
        if before is not None:
            self._metrics.pending_changed(before.reason, "")
        self._count_in_progress(record)
        record.resize = record.resize.granted(record.generation, self._clock.now())
        return before is not None and before.reason == DEFERRED

    # --- PodResizeInProgress
    def begin(self, record: PodRecord) -> None:
        self._count_in_progress(record)
        record.resize = record.resize.under_way(record.generation, self._clock.now())

    def fail(self, record: PodRecord, message: str) -> int:
        """Records that the resize failed. Returns the generation that failed."""
        self._count_in_progress(record)
        generation = record.resize.in_progress.generation if record.resize.in_progress else record.generation
        record.resize = record.resize.failed(message, generation, self._clock.now())
        return generation

    def complete(self, record: PodRecord) -> int | None:
        """Removes the condition PodResizeInProgress. Returns the generation that is complete, None if no resize was in
        progress."""
        before = record.resize.in_progress
        if before is None:
            return None
        record.resize = record.resize.completed()
        self._metrics.in_progress.dec()
        return before.generation

    def _count_in_progress(self, record: PodRecord) -> None:
        if record.resize.in_progress is None:
            self._metrics.in_progress.inc()
