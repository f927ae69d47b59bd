"""Applies resize plans through the runtime and records what was applied. The only writer of actuated sizes.

Failure rules: a container that cannot shrink is skipped and does not keep others from shrinking, but nothing grows and
the pod does not shrink after it; a container that cannot grow does not keep others from growing. A memory limit below
usage is such a failure, known before anything is written. The rest waits for the next try.
"""

from __future__ import annotations

from podfit.agent.actuation import confirmation
from podfit.agent.decide.resize.actuate import (
    GROW,
    SHRINK,
    MemoryCheck,
    NotePod,
    Plan,
    SetContainer,
    SetPod,
    Step,
    below_usage,
    merged,
)
from podfit.agent.decide.resize.refusals import refusal
from podfit.agent.pods.ledger import Ledger
from podfit.agent.pods.observe import Snapshot
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import BelowUsage, LimitsChange, NotFound, RuntimeFailure
from podfit.api.resize.states import MEMORY, Resources

_NOTHING = LimitsChange()
Failures = list[tuple[Step, RuntimeFailure]]


class ActuationFailed(Exception):
    """Some steps of a plan failed. `below` lists the memory limits that are below current usage."""

    def __init__(self, message: str, below: tuple[MemoryCheck, ...] = ()) -> None:
        super().__init__(message)
        self.below = below


class Actuator:
    def __init__(self, runtime: Runtime, ledger: Ledger) -> None:
        self._runtime, self._ledger = runtime, ledger

    async def apply(self, record: PodRecord, plan: Plan, snapshot: Snapshot) -> None:
        failures: Failures = await self._below_usage(record, plan, snapshot) if plan.checks else []
        # After a failure the changes are applied one by one, which shows which of them the runtime refuses.
        if not failures and not record.unverified and await self._all_at_once(record, plan, snapshot):
            self._ledger.flush_soon()
            return
        try:
            for step in plan.steps:
                if failures and not allowed(step, failures):
                    continue
                try:
                    await self._do(record, step, snapshot)
                except NotFound as error:
                    # The container ended, or its cgroup was removed: the runtime's event triggers the next pass.
                    record.story.add("not actuated", refusal(step, error))
                    break
                except RuntimeFailure as error:
                    failures.append((step, error))
        finally:
            self._ledger.flush_soon()
        if failures:
            raise _failed(failures)

    async def _all_at_once(self, record: PodRecord, plan: Plan, snapshot: Snapshot) -> bool:
        """Applies all changes of the plan in one runtime call. Returns False if the runtime did not apply them."""
        changes: list[tuple[str, LimitsChange]] = []
        for step in plan.steps:
            if isinstance(step, SetPod):
                changes.append(("", step.change))
            elif isinstance(step, SetContainer) and step.change != _NOTHING:
                changes.append((snapshot.running[step.name].id, step.change))
        before = self._ledger.actuated(record.uid)
        try:
            if not any(target for target, _ in changes) or not await self._runtime.update_all(record.uid, changes):
                return False
        except NotFound:
            return False
        confirmation.awaited(record, before)
        for step in plan.steps:
            self._note(record, step)
        return True

    async def _below_usage(self, record: PodRecord, plan: Plan, snapshot: Snapshot) -> Failures:
        """The steps that would set a memory limit below current usage. Empty for a virtual machine: what the node's
        kernel counts includes the guest's page cache, and only the VM runtime knows how much the guest can release."""
        found: Failures = []
        if any(container.machine is not None for container in snapshot.running.values()):
            return found
        steps = {
            _subject(step): step for step in plan.steps if step.resource == MEMORY and not isinstance(step, NotePod)
        }
        for check in plan.checks:
            try:
                if check.container:
                    usage = await self._runtime.container_usage(snapshot.running[check.container].id)
                else:
                    usage = await self._runtime.pod_usage(record.uid)
            except RuntimeFailure:
                # The container ended, or its usage is unknown: the kernel or the runtime decides when the limit is set.
                continue
            # The kernel reclaims page cache when the limit falls; the rest cannot be reclaimed.
            held = usage.memory_bytes - usage.cache_bytes
            if held >= check.limit:
                outside = 0 if check.container else await self._outside(snapshot, held, check.limit)
                found.append((steps[check.container], BelowUsage(usage.memory_bytes, check.limit, outside)))
        return found

    async def _outside(self, snapshot: Snapshot, held: int, limit: int) -> int:
        """Memory of processes in the pod's cgroup that belong to no container, if it alone exceeds the limit."""
        inside = 0
        for container in snapshot.running.values():
            try:
                usage = await self._runtime.container_usage(container.id)
            except RuntimeFailure:
                return 0
            inside += usage.memory_bytes - usage.cache_bytes
        return held - inside if inside < limit else 0

    async def _do(self, record: PodRecord, step: Step, snapshot: Snapshot) -> None:
        if isinstance(step, SetPod):
            await self._runtime.update_pod(record.uid, step.change)
        elif isinstance(step, SetContainer) and step.change != _NOTHING:
            await self._runtime.update_container(snapshot.running[step.name].id, step.change)
        self._note(record, step)

    # --- sizes that are applied without a plan
    def sandbox_created(self, record: PodRecord, pod_level: Resources | None) -> None:
        """Records that the pod's cgroup was created with this pod-level size."""
        self._ledger.actuate_pod(record.uid, pod_level)

    def container_created(self, record: PodRecord, name: str, size: Resources) -> None:
        self._ledger.actuate(record.uid, name, size)

    def found_container(self, uid: str, name: str, size: Resources) -> None:
        """Records that the kernel has this size for the container, whatever the ledger contains."""
        self._ledger.actuate(uid, name, size)

    def found_pod(self, uid: str, pod_level: Resources | None) -> None:
        self._ledger.actuate_pod(uid, pod_level)

    def _note(self, record: PodRecord, step: Step) -> None:
        match step:
            case SetPod():
                record.story.add("actuated", "pod", **_numbers(step.change))
            case SetContainer():
                # Only this step's resource: an earlier step of the same container may have been skipped.
                known = self._ledger.actuated(record.uid).containers.get(step.name) or {}
                self._ledger.actuate(record.uid, step.name, merged(known, step.after, step.resource))
                record.story.add("actuated", step.name, **_numbers(step.change))
            case NotePod():
                self._ledger.actuate_pod(record.uid, step.after)


def allowed(step: Step, failures: Failures) -> bool:
    """Whether a step may still run after these failures."""
    if isinstance(step, NotePod):
        return False
    if all(_could_not_grow(failed, error) for failed, error in failures):
        return True
    skipped = {_subject(failed) for failed, _ in failures}
    return isinstance(step, SetContainer) and step.direction == SHRINK and step.name not in skipped


def _could_not_grow(step: Step, error: RuntimeFailure) -> bool:
    """Whether the failed step is a container that could not grow. A container without a memory limit that gets one
    counts as growing, but the new limit can be below usage; that is not such a failure."""
    return isinstance(step, SetContainer) and step.direction == GROW and not isinstance(error, BelowUsage)


def _subject(step: Step) -> str:
    """The name of the step's container; "" stands for the pod."""
    return step.name if isinstance(step, SetContainer) else ""


def _failed(failures: Failures) -> ActuationFailed:
    below: list[tuple[MemoryCheck, BelowUsage]] = []
    for step, error in failures:
        if isinstance(error, BelowUsage) and step.resource == MEMORY:
            below.append((MemoryCheck(_subject(step), error.limit_bytes), error))
    if below:
        return ActuationFailed(below_usage(below), tuple(check for check, _ in below))
    texts = [refusal(step, error) for step, error in failures]
    return ActuationFailed(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _numbers(change: LimitsChange) -> dict[str, int]:
    named = {
        "cpu_shares": change.cpu_shares,
        "cpu_quota_us": change.cpu_quota_us,
        "memory_bytes": change.memory_bytes,
    }
    return {key: value for key, value in named.items() if value is not None}
