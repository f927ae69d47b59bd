"""One pass over one pod: observe, decide, act, report. Level-triggered: safe to repeat, safe to kill between any lines.

Desired ─► Allocated   happens for all pods of the node together, in `allocator`
Allocated ─► Actuated  `_resize`
Actuated ─► Actual     `_settle`
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from podfit.agent.act import ActuationFailed, Actuator
from podfit.agent.allocator import Allocator
from podfit.agent.answers import Answers
from podfit.agent.closing import Closing, initialized
from podfit.agent.config import AgentConfig
from podfit.agent.cpus.policy import CpuPolicy
from podfit.agent.decide import actuate, lifecycle, settle
from podfit.agent.decide.lifecycle import Next
from podfit.agent.furnish.containers import ContainerMaker
from podfit.agent.furnish.volumes import BadVolume, Volumes
from podfit.agent.ledger import Ledger
from podfit.agent.life import exits, messages
from podfit.agent.life.crashes import Crashes
from podfit.agent.life.ending import Stopper
from podfit.agent.life.portconflicts import PortConflicts
from podfit.agent.life.powers import Powers
from podfit.agent.life.probes import Probes
from podfit.agent.life.starter import Starter
from podfit.agent.memory import MemoryWaits
from podfit.agent.metrics import AgentMetrics
from podfit.agent.migration.arrival import Arrivals
from podfit.agent.migration.departure import Departures
from podfit.agent.notices import WARNING, Notices
from podfit.agent.observe import Snapshot, observe
from podfit.agent.record import PodRecord
from podfit.agent.report import Reporter
from podfit.agent.restarts import Restarts
from podfit.agent.runtimes.base import NotFound, Runtime, RuntimeFailure
from podfit.api.machines import RUNNING as ON
from podfit.api.migrations import ANNOTATION, Migration
from podfit.kit.clock import Clock
from podfit.kit.oserrors import system_words
from podfit.reconcile.result import DONE, Again, Result

_PATIENCE_S = 0.1


class PodLoop:
    def __init__(
        self,
        config: AgentConfig,
        runtime: Runtime,
        ledger: Ledger,
        allocator: Allocator,
        cpus: CpuPolicy,
        actuator: Actuator,
        starter: Starter,
        stopper: Stopper,
        restarts: Restarts,
        closing: Closing,
        reporter: Reporter,
        notices: Notices,
        metrics: AgentMetrics,
        waits: MemoryWaits,
        crashes: Crashes,
        conflicts: PortConflicts,
        powers: Powers,
        probes: Callable[[PodRecord], Probes],
        farewell: Callable[[PodRecord], Awaitable[None]],
        maker: ContainerMaker,
        volumes: Volumes,
        looking: Callable[[str], None],
        departures: Departures,
        arrivals: Arrivals,
        clock: Clock,
    ) -> None:
        self._departures, self._arrivals = departures, arrivals
        self._config, self._runtime, self._ledger, self._allocator = config, runtime, ledger, allocator
        self._cpus = cpus
        self._actuator, self._starter, self._stopper, self._closing = actuator, starter, stopper, closing
        self._reporter, self._notices, self._metrics, self._waits = reporter, notices, metrics, waits
        self._crashes, self._probes, self._farewell, self._maker = crashes, probes, farewell, maker
        self._conflicts, self._powers = conflicts, powers
        self._restarts, self._volumes, self._looking, self._clock = restarts, volumes, looking, clock
        self._answers = Answers(runtime, ledger, clock)

    async def run(self, record: PodRecord) -> Result:
        if record.coming and (record.ending is None or not record.ending.gone):
            return await self._come(record)
        if record.rejected is not None:
            return await self._closing.reject(record)
        if not self._ledger.is_durable(record.uid) or not self._cpus.is_durable(record.uid):
            await self._promise(record)
        self._looking(record.uid)
        # The ledger is asked, not the record: what follows looks at the pod by its promise, without a pause in between.
        promised = self._ledger.allocated(record.uid) is not None
        if record.removed or (not promised and record.ending is not None):
            await self._farewell(record)
            return DONE
        if not promised or (record.finished and record.ending is None and not record.untold):
            return DONE
        snapshot = await self._answers.observe(record)
        if self._config.on_disk and snapshot.state is not None:
            messages.collect(record, snapshot.state, self._maker)
        exits.note(record, snapshot)
        self._closing.check_deadline(record)
        if record.ending is not None:
            result = await self._end(record, snapshot)
        else:
            result = await self._live(record, snapshot)
        if record.finished:
            self._volumes.release(record.uid)
        return result

    async def _come(self, record: PodRecord) -> Result:
        """A pod that is being migrated to this node: promised first, like any other."""
        if record.rejected is None and not self._ledger.is_durable(record.uid):
            await self._promise(record)
        self._looking(record.uid)
        return await self._arrivals.run(record)

    async def _promise(self, record: PodRecord) -> None:
        """On disk before anything is done; of a pod that cannot start for that, people are told."""
        try:
            await self._cpus.flush()
            await self._ledger.flush()
        except OSError as error:
            if record.state is None:
                why = f"error making pod data directories: {system_words(error)}"
                self._notices.say(record.pod, WARNING, "FailedToMakePodDataDirectories", why)
            raise

    # --- a pod on its way out
    async def _end(self, record: PodRecord, snapshot: Snapshot) -> Result:
        """What was granted is applied as long as containers run, without restarting any of them."""
        assert record.ending is not None
        again: list[float] = []
        if snapshot.running and not record.ending.gone:
            if settle.in_progress(record.pod, snapshot.allocated, snapshot.actuated, snapshot.running):
                again = await self._resize(record, snapshot, ())
                again += await self._place(record, snapshot)
                snapshot = await observe(record, self._ledger, self._runtime)
            self._settle(record, snapshot)
        result = await self._closing.end(record, snapshot)
        return Again(min(again), "a resize failed") if again and not record.finished else result

    async def _leave(self, record: PodRecord, snapshot: Snapshot, migration: Migration) -> Result:
        """A pod that is being migrated away: nothing of it is started, stopped or resized meanwhile."""
        again = self._departures.follow(record, migration)
        self._settle(record, snapshot)
        await self._reporter.report(record, snapshot, initialized(record, snapshot))
        return Again(min(again), "a migration") if again else DONE

    # --- a living pod: the four states in order
    async def _live(self, record: PodRecord, snapshot: Snapshot) -> Result:
        if ANNOTATION in (record.pod["metadata"].get("annotations") or {}):
            if (migration := self._departures.leaving(record)) is not None:
                return await self._leave(record, snapshot, migration)
            await self._departures.settle(record)
        following = lifecycle.next_steps(
            record.pod, snapshot.seen, lambda one: self._crashes.delay(record, one), frozenset(record.restarting)
        )
        if following.over:
            self._settle(record, snapshot)
            return await self._closing.over(record, snapshot, following)
        if snapshot.state is None:
            if missing_s := await self._starter.mount(record):
                self._settle(record, snapshot)
                await self._reporter.report(record, snapshot, following.initialized)
                return Again(min([missing_s, *self._closing.deadline(record)]), "a volume is missing")
            await self._make(record, snapshot, following.initialized)
            snapshot = await observe(record, self._ledger, self._runtime)
        elif not snapshot.sandbox:
            await self._starter.sandbox(record, snapshot)
            return Again(0.01, "the sandbox was recreated")
        again = await self._resize(record, snapshot, following.start)
        again += await self._place(record, snapshot)
        if following.start or following.later:
            again += await self._start(record, snapshot, following)
        snapshot = await observe(record, self._ledger, self._runtime)
        before = dict(record.port_conflicts)
        again += await self._conflicts.look(record, snapshot)
        if record.port_conflicts != before:
            snapshot = await observe(record, self._ledger, self._runtime)
        self._settle(record, snapshot)
        self._powers.follow(record, snapshot)
        self._watch(record, snapshot)
        await self._reporter.report(record, snapshot, following.initialized or initialized(record, snapshot))
        self._allocator.recount(record)
        again += self._answers.look_again(record)
        again += self._closing.deadline(record) + await self._refresh(record, snapshot)
        return Again(min(again), "timers") if again else DONE

    async def _make(self, record: PodRecord, snapshot: Snapshot, initialized: bool) -> None:
        """The sandbox; only one that takes its time, or cannot be had, is worth a status of its own."""
        work = asyncio.ensure_future(self._starter.sandbox(record, snapshot))
        try:
            await asyncio.wait({work}, timeout=_PATIENCE_S)
            if not work.done():
                await self._reporter.report(record, snapshot, initialized)
            await work
        except (RuntimeFailure, OSError):
            await self._reporter.report(record, snapshot, initialized)
            raise
        finally:
            work.cancel()

    async def _resize(self, record: PodRecord, snapshot: Snapshot, starting: Collection[str]) -> list[float]:
        """Allocated → Actuated. Returns when to try again, if something failed."""
        if pause := self._pausing(record, snapshot):
            return pause
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
            starting,
            pod_now,
            record.doubtful,
            record.sized(snapshot.allocated),
        )
        if (plan.restart or record.restarting) and record.ending is None:
            await self._restart(record, snapshot, plan.restart)
        if not plan:
            record.doubtful, record.failed = False, None
        if not plan.steps or _being_stopped(record):
            return []
        began = self._clock.monotonic()
        try:
            await self._actuator.apply(record, plan, snapshot)
        except ActuationFailed as failure:
            self._metrics.actuated(self._clock.monotonic() - began, False)
            record.doubtful = True
            return [self._failed(record, snapshot, failure)]
        self._metrics.actuated(self._clock.monotonic() - began, True)
        record.doubtful, record.failed = False, None
        return []

    def _pausing(self, record: PodRecord, snapshot: Snapshot) -> list[float]:
        """The seconds until an actuation that failed is tried again."""
        left = record.retry_at - self._clock.monotonic() if record.failed is snapshot.allocated else 0.0
        return [left] if left > 0 else []

    async def _place(self, record: PodRecord, snapshot: Snapshot) -> list[float]:
        """The CPUs the containers run on. Returns when to try again, if something failed."""
        if pause := self._pausing(record, snapshot):
            return pause
        try:
            await self._cpus.apply(record.uid, snapshot.state)
        except RuntimeFailure as error:
            return [self._failed(record, snapshot, ActuationFailed(str(error)))]
        return []

    async def _restart(self, record: PodRecord, snapshot: Snapshot, planned: tuple[str, ...]) -> None:
        names = self._restarts.due(record, snapshot, planned)
        if names:
            await self._restarts.begin(record, snapshot, names)
        for name in names:
            self._stopper.stop(record, snapshot, name, record.grace_s, f"Container {name} resize requires restart")

    def _failed(self, record: PodRecord, snapshot: Snapshot, failure: ActuationFailed) -> float:
        """The promise stays; it is tried again when usage has fallen, or after a while."""
        same = record.failed is snapshot.allocated
        record.failures = record.failures + 1 if same else 1
        pause = min(self._config.error_retry_s * 2.0 ** (record.failures - 1), 60.0)
        record.failed, record.retry_at = snapshot.allocated, self._clock.monotonic() + pause
        if record.resize.in_progress is None:
            self._metrics.in_progress.inc()
        generation = record.resize.in_progress.generation if record.resize.in_progress else record.generation
        record.resize = record.resize.failed(str(failure), generation, self._clock.now())
        record.story.tell("not actuated", str(failure), tries=record.failures)
        self._notices.failed(record.pod, record.sized(snapshot.allocated).shown, generation, str(failure))
        if failure.below:
            self._waits.watch(record, snapshot, failure.below)
        return pause

    async def _start(self, record: PodRecord, snapshot: Snapshot, following: Next) -> list[float]:
        for name, _ in following.later:
            if not record.job(f"hook:{name}"):
                self._crashes.back_off(record, name)
        again = [seconds for _, seconds in following.later]
        names = [name for name in following.start if not record.job(f"stop:{name}")]
        if names and not _being_stopped(record):
            for name in names:
                if record.waiting.get(name, ("",))[0] == "CrashLoopBackOff":
                    record.waiting.pop(name)
            wait = await self._starter.start(record, snapshot, tuple(names))
            again += [wait] if wait else []
        return again

    def _settle(self, record: PodRecord, snapshot: Snapshot) -> None:
        """Actuated → Actual: is the promise kept?"""
        unkept = settle.in_progress(record.pod, snapshot.allocated, snapshot.actuated, snapshot.running)
        failed = record.failed is snapshot.allocated and bool(snapshot.running)
        if unkept or failed:
            if not failed:
                if record.resize.in_progress is None:
                    self._metrics.in_progress.inc()
                record.resize = record.resize.under_way(record.generation, self._clock.now())
            return
        if self._answers.outstanding(record):
            return
        if record.resize.in_progress is not None and not record.restarting:
            generation = record.resize.in_progress.generation
            record.resize = record.resize.completed()
            self._waits.forget(record)
            record.failed = None
            self._metrics.in_progress.dec()
            record.story.tell("resized", "spec, allocation and cgroup agree", generation=generation)
            self._notices.completed(record.pod, record.sized(snapshot.allocated).shown, generation)

    # --- probes
    def _watch(self, record: PodRecord, snapshot: Snapshot) -> None:
        if record.probes is None:
            if not record.probed:
                return
            record.probes = self._probes(record)
        # A machine that is paused or off answers no probe, which is no reason to restart it.
        on = {name: one for name, one in snapshot.running.items() if one.machine is None or one.machine.power == ON}
        record.probes.follow(on)
        for name in record.probes.unhealthy(on):
            message = f"Container {name} failed {record.probes.failed_kind(name)} probe, will be restarted"
            self._stopper.stop(record, snapshot, name, record.probes.grace_s(name), message)

    async def _refresh(self, record: PodRecord, snapshot: Snapshot) -> list[float]:
        """Mounted ConfigMaps, Secrets, tokens and what the pod is told of itself follow what they are made of."""
        if not self._config.on_disk or not record.pod["spec"].get("volumes") or snapshot.state is None:
            return []
        pod, ips = record.sized(snapshot.allocated).pod, snapshot.state.ips
        due = self._volumes.due_s(pod, ips)
        if due == 0.0:
            try:
                await self._volumes.prepare(pod, ips)
            except BadVolume as problem:
                for why in problem.told:
                    self._notices.say(record.pod, WARNING, "FailedMount", why)
            due = self._volumes.due_s(pod, ips)
        return [due] if due is not None else []


def _being_stopped(record: PodRecord) -> bool:
    """Whether a container that a resize restarts has not ended yet."""
    return bool(record.restarting) and any(record.job(f"stop:{name}") for name in record.restarting)
