"""One pass over one pod: observe, decide, act, report. Level-triggered: safe to repeat, safe to kill between any lines.

Desired ─► Allocated   happens for all pods of the node together, in `allocator`
Allocated ─► Actuated  `_resize`
Actuated ─► Actual     `_settle`
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from podfit.agent.act import ActuationFailed, Actuator
from podfit.agent.allocator import Allocator
from podfit.agent.config import AgentConfig
from podfit.agent.decide import actuate, lifecycle, settle
from podfit.agent.decide import status as statuses
from podfit.agent.decide.lifecycle import Next, Seen
from podfit.agent.decide.states import resized
from podfit.agent.furnish.containers import ContainerMaker
from podfit.agent.furnish.objects import MissingObject
from podfit.agent.furnish.volumes import Volumes
from podfit.agent.ledger import Ledger
from podfit.agent.life import messages
from podfit.agent.life.ending import Stopper
from podfit.agent.life.probes import Probes
from podfit.agent.life.starter import Starter
from podfit.agent.memory import MemoryWaits
from podfit.agent.metrics import AgentMetrics
from podfit.agent.notices import WARNING, Notices
from podfit.agent.observe import Snapshot, observe
from podfit.agent.record import CrashBackoff, Ending, PodRecord
from podfit.agent.report import Reporter
from podfit.agent.runtimes.base import NotFound, Runtime
from podfit.kit.clock import Clock, parse_rfc3339, rfc3339
from podfit.reconcile.result import DONE, Again, Result

_PATIENCE_S = 0.1


class PodLoop:
    def __init__(
        self,
        config: AgentConfig,
        runtime: Runtime,
        ledger: Ledger,
        allocator: Allocator,
        actuator: Actuator,
        starter: Starter,
        stopper: Stopper,
        reporter: Reporter,
        notices: Notices,
        metrics: AgentMetrics,
        waits: MemoryWaits,
        probes: Callable[[PodRecord], Probes],
        farewell: Callable[[PodRecord], Awaitable[None]],
        maker: ContainerMaker,
        volumes: Volumes,
        clock: Clock,
    ) -> None:
        self._config, self._runtime, self._ledger, self._allocator = config, runtime, ledger, allocator
        self._actuator, self._starter, self._stopper, self._reporter = actuator, starter, stopper, reporter
        self._notices, self._metrics, self._waits, self._clock = notices, metrics, waits, clock
        self._probes, self._farewell, self._maker, self._volumes = probes, farewell, maker, volumes

    async def run(self, record: PodRecord) -> Result:
        if record.rejected is not None:
            return await self._reject(record)
        if record.removed or (not record.admitted and record.ending is not None):
            await self._farewell(record)
            return DONE
        if not record.admitted or (record.finished and record.ending is None):
            return DONE
        if not self._ledger.is_durable(record.uid):
            await self._ledger.flush()
        snapshot = await observe(record, self._ledger, self._runtime)
        if self._config.on_disk and snapshot.state is not None:
            messages.collect(record, snapshot.state, self._maker)
        self._check_deadline(record)
        if record.ending is not None:
            return await self._end(record, snapshot)
        return await self._live(record, snapshot)

    # --- a living pod: the four states in order
    async def _live(self, record: PodRecord, snapshot: Snapshot) -> Result:
        following = lifecycle.next_steps(
            record.pod, snapshot.seen, lambda one: self._delay(record, one), frozenset(record.restarting)
        )
        if following.over:
            return await self._over(record, snapshot, following)
        if snapshot.state is None:
            await self._make(record, snapshot, following.initialized)
            snapshot = await observe(record, self._ledger, self._runtime)
        elif not snapshot.sandbox:
            await self._starter.sandbox(record, snapshot)
            return Again(0.01, "the sandbox was made anew")
        again = await self._resize(record, snapshot, following)
        again += await self._start(record, snapshot, following)
        snapshot = await observe(record, self._ledger, self._runtime)
        self._settle(record, snapshot)
        self._watch(record, snapshot)
        initialized = following.initialized or self._initialized(record, snapshot)
        await self._reporter.report(record, snapshot, initialized)
        self._allocator.recount(record)
        again += self._deadline(record) + await self._refresh(record, snapshot)
        return Again(min(again), "timers") if again else DONE

    async def _make(self, record: PodRecord, snapshot: Snapshot, initialized: bool) -> None:
        """The sandbox; only one that takes its time is worth a status of its own."""
        work = asyncio.ensure_future(self._starter.sandbox(record, snapshot))
        try:
            await asyncio.wait({work}, timeout=_PATIENCE_S)
            if not work.done():
                await self._reporter.report(record, snapshot, initialized)
            await work
        finally:
            work.cancel()

    async def _resize(self, record: PodRecord, snapshot: Snapshot, following: Next) -> list[float]:
        """Allocated → Actuated. Returns when to try again, if something failed."""
        if record.failed is snapshot.allocated and self._clock.monotonic() < record.retry_at:
            return [record.retry_at - self._clock.monotonic()]
        try:
            pod_now = await self._runtime.pod_limits(record.uid)
        except NotFound:
            return []
        plan = actuate.plan(
            record.pod,
            record.qos,
            snapshot.allocated,
            snapshot.actuated,
            snapshot.running,
            following.start,
            pod_now,
            record.doubtful,
        )
        for name in plan.restart:
            self._restart(record, snapshot, name)
        if not plan:
            record.doubtful = False
        if not plan.steps or any(record.job(f"stop:{name}") for name in record.restarting):
            return []
        began = self._clock.monotonic()
        try:
            await self._actuator.apply(record, plan, snapshot)
        except ActuationFailed as failure:
            self._metrics.actuated(self._clock.monotonic() - began, False)
            record.doubtful = True
            return [self._failed(record, snapshot, failure)]
        self._metrics.actuated(self._clock.monotonic() - began, True)
        record.doubtful = False
        return []

    def _restart(self, record: PodRecord, snapshot: Snapshot, name: str) -> None:
        record.restarting.add(name)
        self._stopper.stop(record, snapshot, name, record.grace_s, f"Container {name} resize requires restart")

    def _failed(self, record: PodRecord, snapshot: Snapshot, failure: ActuationFailed) -> float:
        """The promise stays; it is tried again when usage has fallen, or after a while."""
        same = record.failed is snapshot.allocated
        record.failures = record.failures + 1 if same else 1
        pause = min(self._config.error_retry_s * 2.0 ** (record.failures - 1), 60.0)
        record.failed, record.retry_at = snapshot.allocated, self._clock.monotonic() + pause
        generation = record.resize.in_progress.generation if record.resize.in_progress else record.generation
        record.resize = record.resize.failed(str(failure), generation, self._clock.now())
        record.story.tell("not actuated", str(failure), tries=record.failures)
        self._notices.failed(record.pod, snapshot.allocated.containers, generation, str(failure))
        if failure.below:
            self._waits.watch(record, snapshot, failure.below)
        return pause

    async def _start(self, record: PodRecord, snapshot: Snapshot, following: Next) -> list[float]:
        for name, seconds in following.later:
            self._back_off(record, name, seconds)
        again = [seconds for _, seconds in following.later]
        names = tuple(name for name in following.start if not record.job(f"stop:{name}"))
        if names and not any(record.job(f"stop:{name}") for name in record.restarting):
            for name in names:
                if record.waiting.get(name, ("",))[0] == "CrashLoopBackOff":
                    record.waiting.pop(name)
            wait = await self._starter.start(record, snapshot, names)
            again += [wait] if wait else []
        return again

    def _settle(self, record: PodRecord, snapshot: Snapshot) -> None:
        """Actuated → Actual: is the promise kept?"""
        unkept = settle.in_progress(record.pod, snapshot.allocated, snapshot.actuated, snapshot.running)
        if unkept:
            if record.failed is not snapshot.allocated:
                if record.resize.in_progress is None:
                    self._metrics.in_progress.inc()
                record.resize = record.resize.under_way(record.generation, self._clock.now())
            return
        if record.resize.in_progress is not None and not record.restarting:
            generation = record.resize.in_progress.generation
            record.resize = record.resize.completed()
            self._waits.forget(record)
            record.failed = None
            self._metrics.in_progress.dec()
            record.story.tell("resized", "every container has what was promised", generation=generation)
            self._notices.completed(record.pod, snapshot.allocated.containers, generation)

    # --- crash loops
    def _delay(self, record: PodRecord, one: Seen) -> float:
        if one.last is None or not one.exited:
            return 0.0
        backoff = record.backoff.setdefault(one.name, CrashBackoff())
        backoff.ended(one.last.id, one.last.finished_at - one.last.started_at)
        return max(0.0, backoff.wait_s - (self._clock.now() - one.last.finished_at))

    def _back_off(self, record: PodRecord, name: str, seconds: float) -> None:
        step = record.backoff[name].wait_s
        who = f"{record.name}_{record.namespace}({record.uid})"
        if record.waiting.get(name, ("",))[0] != "CrashLoopBackOff":
            text = f"Back-off restarting failed container {name} in pod {who}"
            self._notices.say(record.pod, WARNING, "BackOff", text)
        minutes, rest = divmod(int(step), 60)
        shown = f"{minutes}m{rest}s" if minutes else f"{rest}s"
        message = f"back-off {shown} restarting failed container={name} pod={who}"
        record.waiting[name] = ("CrashLoopBackOff", message)

    # --- probes
    def _watch(self, record: PodRecord, snapshot: Snapshot) -> None:
        if record.probes is None:
            if not any(_probed(container) for container in statuses.containers_of(record.pod)):
                return
            record.probes = self._probes(record)
        record.probes.follow(snapshot.running)
        for name in record.probes.unhealthy(snapshot.running):
            message = f"Container {name} failed {record.probes.failed_kind(name)} probe, will be restarted"
            self._stopper.stop(record, snapshot, name, record.grace_s, message)

    @staticmethod
    def _initialized(record: PodRecord, snapshot: Snapshot) -> bool:
        following = lifecycle.next_steps(record.pod, snapshot.seen, lambda one: 0.0, frozenset(record.restarting))
        return following.initialized

    async def _refresh(self, record: PodRecord, snapshot: Snapshot) -> list[float]:
        """Mounted ConfigMaps, Secrets and tokens follow their objects."""
        period = self._volumes.needs_refresh(record.pod) if self._config.on_disk else None
        if period is None or snapshot.state is None:
            return []
        now = self._clock.monotonic()
        if record.refresh_at is not None and now >= record.refresh_at:
            try:
                await self._volumes.prepare(resized(record.pod, snapshot.allocated), snapshot.state.ips)
            except (MissingObject, OSError) as problem:
                self._notices.say(record.pod, WARNING, "FailedMount", f"MountVolume.SetUp failed: {problem}")
            record.refresh_at = None
        if record.refresh_at is None:
            record.refresh_at = now + period
        return [record.refresh_at - now]

    # --- the end
    def _check_deadline(self, record: PodRecord) -> None:
        if record.ending is None and not record.finished and self._left(record) == 0.0:
            message = "Pod was active on the node longer than the specified deadline"
            record.ending = Ending(2.0, "DeadlineExceeded", message)
            self._notices.say(record.pod, "Normal", "DeadlineExceeded", message)

    def _left(self, record: PodRecord) -> float | None:
        seconds = record.pod["spec"].get("activeDeadlineSeconds")
        if seconds is None or not record.start_time:
            return None
        return max(0.0, parse_rfc3339(record.start_time) + float(seconds) - self._clock.now())

    def _deadline(self, record: PodRecord) -> list[float]:
        left = self._left(record)
        return [left] if left else []

    async def _over(self, record: PodRecord, snapshot: Snapshot, following: Next) -> Result:
        """All its work is done: sidecars go, then the sandbox; the object stays until someone deletes it."""
        if following.stop or snapshot.running:
            self._stopper.stop_all(record, snapshot, record.grace_s)
            self._settle(record, snapshot)
            await self._reporter.report(record, snapshot, following.initialized)
            return DONE
        await self._runtime.stop_pod(record.uid)
        return await self._finish(record, following.initialized)

    async def _end(self, record: PodRecord, snapshot: Snapshot) -> Result:
        ending = record.ending
        assert ending is not None
        if record.probes is not None:
            record.probes.stop()
        if ending.grace_s < record.stop_grace_s:
            self._stopper.hurry(record)
        record.stop_grace_s = ending.grace_s
        if not self._stopper.stop_all(record, snapshot, ending.grace_s):
            running = frozenset(snapshot.running)
            if not ending.gone and record.shown_ending != running:
                await self._reporter.report(record, snapshot, True)
                record.shown_ending = running
            return DONE
        await self._runtime.stop_pod(record.uid)
        result = await self._finish(record, self._initialized(record, snapshot))
        if ending.gone or record.pod["metadata"].get("deletionTimestamp"):
            await self._farewell(record)
        return result

    async def _finish(self, record: PodRecord, initialized: bool) -> Result:
        first = not record.finished
        record.finished = True
        if record.resize.in_progress is not None:
            self._metrics.in_progress.dec()
            record.resize = record.resize.completed()
        self._allocator.drop(record.uid)
        snapshot = await observe(record, self._ledger, self._runtime)
        if record.ending is None or not record.ending.gone:
            await self._reporter.report(record, snapshot, initialized)
        if first:
            record.story.tell("over", "nothing runs any more")
            self._allocator.freed("pod_terminated", record.uid)
        return DONE

    async def _reject(self, record: PodRecord) -> Result:
        assert record.rejected is not None
        reason, message = record.rejected
        now = rfc3339(self._clock.now())
        known = (record.shown.get("status") or {}).get("startTime") or now
        await self._reporter.write(record, statuses.rejected(record.pod, reason, message, known, record.qos))
        if record.ending is not None:
            await self._farewell(record)
        return DONE


def _probed(container: dict[str, object]) -> bool:
    return any(container.get(kind) for kind in ("livenessProbe", "readinessProbe", "startupProbe"))
