"""How pods end on this node: rejected, done, deleted, evicted, past their deadline. Always the same way out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from podfit.agent.allocator import Allocator
from podfit.agent.cpus.policy import CpuPolicy
from podfit.agent.decide import lifecycle
from podfit.agent.decide import status as statuses
from podfit.agent.decide.lifecycle import Next
from podfit.agent.ledger import Ledger
from podfit.agent.life.ending import Stopper
from podfit.agent.metrics import AgentMetrics
from podfit.agent.notices import Notices
from podfit.agent.observe import Snapshot, observe
from podfit.agent.record import Ending, PodRecord
from podfit.agent.report import Reporter
from podfit.agent.runtimes.base import Runtime
from podfit.kit.clock import Clock, parse_rfc3339, rfc3339
from podfit.reconcile.result import DONE, Result


def initialized(record: PodRecord, snapshot: Snapshot) -> bool:
    following = lifecycle.next_steps(record.pod, snapshot.seen, lambda one: 0.0, frozenset(record.restarting))
    return following.initialized


class Closing:
    def __init__(
        self,
        runtime: Runtime,
        ledger: Ledger,
        allocator: Allocator,
        cpus: CpuPolicy,
        stopper: Stopper,
        reporter: Reporter,
        notices: Notices,
        metrics: AgentMetrics,
        farewell: Callable[[PodRecord], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self._runtime, self._ledger, self._allocator, self._cpus = runtime, ledger, allocator, cpus
        self._stopper = stopper
        self._reporter, self._notices, self._metrics, self._clock = reporter, notices, metrics, clock
        self._farewell = farewell

    def check_deadline(self, record: PodRecord) -> None:
        if record.ending is None and not record.finished and self._left(record) == 0.0:
            message = "Pod was active on the node longer than the specified deadline"
            record.ending = Ending(2.0, "DeadlineExceeded", message)
            self._notices.say(record.pod, "Normal", "DeadlineExceeded", message)

    def _left(self, record: PodRecord) -> float | None:
        seconds = record.pod["spec"].get("activeDeadlineSeconds")
        if seconds is None or not record.start_time:
            return None
        now = self._clock.monotonic()
        if record.started_at is None:
            record.started_at = now - max(0.0, self._clock.now() - parse_rfc3339(record.start_time))
        return max(0.0, record.started_at + float(seconds) - now)

    def deadline(self, record: PodRecord) -> list[float]:
        left = self._left(record)
        return [left] if left is not None else []

    async def over(self, record: PodRecord, snapshot: Snapshot, following: Next) -> Result:
        """All its work is done: sidecars go, then the sandbox; the object stays until someone deletes it."""
        if following.stop or snapshot.running:
            self._stopper.stop_all(record, snapshot, record.grace_s)
            await self._reporter.report(record, snapshot, following.initialized)
            return DONE
        await self._runtime.stop_pod(record.uid)
        return await self._finish(record, following.initialized)

    async def end(self, record: PodRecord, snapshot: Snapshot) -> Result:
        ending = record.ending
        assert ending is not None
        if record.probes is not None:
            record.probes.stop()
        if ending.grace_s < record.stop_grace_s:
            self._stopper.hurry(record)
        record.stop_grace_s = ending.grace_s
        if not self._stopper.stop_all(record, snapshot, ending.grace_s):
            if not ending.gone:
                await self._report_ending(record, snapshot)
            return DONE
        await self._runtime.stop_pod(record.uid)
        result = await self._finish(record, initialized(record, snapshot))
        if ending.gone or record.pod["metadata"].get("deletionTimestamp"):
            await self._farewell(record)
        return result

    async def _report_ending(self, record: PodRecord, snapshot: Snapshot) -> None:
        """A pod on its way out reports which containers still run and what becomes of its resizes, nothing else."""
        shown = (frozenset(snapshot.running), snapshot.allocated, record.resize, record.generation)
        if record.shown_ending != shown:
            await self._reporter.report(record, snapshot, True)
            record.shown_ending = shown if record.rejected_status is None else None
            self._allocator.recount(record)

    async def _finish(self, record: PodRecord, initialized: bool) -> Result:
        first = not record.finished
        record.finished = record.untold = True
        if record.resize.in_progress is not None:
            self._metrics.in_progress.dec()
            record.resize = record.resize.completed()
        self._allocator.drop(record.uid)
        self._cpus.release(record.uid)
        snapshot = await observe(record, self._ledger, self._runtime)
        if first:
            record.story.tell("over", "nothing runs any more")
            self._allocator.freed("pods_removed", record.uid)
        if record.ending is None or not record.ending.gone:
            await self._reporter.report(record, snapshot, initialized)
        record.untold = record.rejected_status is not None
        return DONE

    async def reject(self, record: PodRecord) -> Result:
        assert record.rejected is not None
        reason, message = record.rejected
        now = rfc3339(self._clock.now())
        known = (record.shown.get("status") or {}).get("startTime") or now
        await self._reporter.write(record, statuses.rejected(record.pod, reason, message, known, record.qos))
        if record.ending is not None:
            await self._farewell(record)
        return DONE
