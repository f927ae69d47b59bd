"""Carries out resize plans on the runtime and notes what worked. The only writer of actuated sizes.

Failure rules: a container that cannot shrink does not keep others from shrinking, but nothing grows and the pod does
not shrink after it; a container that cannot grow does not keep others from growing. What comes after a failed resource
(CPU after memory) waits for the next try.
"""

from __future__ import annotations

from podfit.agent.decide.actuate import SHRINK, MemoryCheck, NotePod, Plan, SetContainer, SetPod, Step, below_usage
from podfit.agent.decide.states import MEMORY
from podfit.agent.ledger import Ledger
from podfit.agent.observe import Snapshot
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.base import BelowUsage, Change, NotFound, Runtime, RuntimeFailure

_NOTHING = Change()


class ActuationFailed(Exception):
    """Some step did not work. `below` names the limits that usage stands in the way of."""

    def __init__(self, message: str, below: tuple[MemoryCheck, ...] = ()) -> None:
        super().__init__(message)
        self.below = below


class Actuator:
    def __init__(self, runtime: Runtime, ledger: Ledger) -> None:
        self._runtime, self._ledger = runtime, ledger

    async def apply(self, record: PodRecord, plan: Plan, snapshot: Snapshot) -> None:
        if plan.checks:
            await self._check_usage(record, plan, snapshot)
        failures: list[tuple[Step, RuntimeFailure]] = []
        try:
            for step in plan.steps:
                if failures and not _allowed(step, [failed for failed, _ in failures]):
                    continue
                try:
                    await self._do(record, step, snapshot)
                except NotFound as error:
                    # It ended, or somebody took its cgroup away: its event brings the next look.
                    record.story.tell("not actuated", str(error))
                    break
                except RuntimeFailure as error:
                    failures.append((step, error))
        finally:
            self._ledger.flush_soon()
        if failures:
            raise _failed(failures)

    async def _check_usage(self, record: PodRecord, plan: Plan, snapshot: Snapshot) -> None:
        """Live usage at the moment of the write: what is in use cannot be taken away."""
        violations = []
        for check in plan.checks:
            try:
                if check.container:
                    usage = await self._runtime.container_usage(snapshot.running[check.container].id)
                else:
                    usage = await self._runtime.pod_usage(record.uid)
            except NotFound:
                continue
            # Page cache goes when the limit falls; what cannot go is the rest.
            held = usage.memory_bytes - usage.cache_bytes
            if held >= check.limit:
                violations.append((check, usage.memory_bytes))
        if violations:
            raise ActuationFailed(below_usage(violations), tuple(check for check, _ in violations))

    async def _do(self, record: PodRecord, step: Step, snapshot: Snapshot) -> None:
        match step:
            case SetPod():
                await self._runtime.update_pod(record.uid, step.change)
                record.story.tell("actuated", "pod", **_numbers(step.change))
            case SetContainer():
                if step.change != _NOTHING:
                    await self._runtime.update_container(snapshot.running[step.name].id, step.change)
                self._ledger.actuate(record.uid, step.name, step.after)
                record.story.tell("actuated", step.name, **_numbers(step.change))
            case NotePod():
                self._ledger.actuate_pod(record.uid, step.after)


def _allowed(step: Step, failed: list[Step]) -> bool:
    if any(one.resource != step.resource for one in failed) or isinstance(step, NotePod):
        return False
    if not isinstance(step, SetContainer) or any(isinstance(one, SetPod) for one in failed):
        return False
    return step.direction == SHRINK or not any(_shrinks(one) for one in failed)


def _shrinks(step: Step) -> bool:
    return isinstance(step, SetContainer) and step.direction == SHRINK


def _failed(failures: list[tuple[Step, RuntimeFailure]]) -> ActuationFailed:
    below: list[tuple[MemoryCheck, int]] = []
    for step, error in failures:
        if isinstance(error, BelowUsage) and step.resource == MEMORY:
            name = step.name if isinstance(step, SetContainer) else ""
            below.append((MemoryCheck(name, error.limit_bytes), error.usage_bytes))
    if below:
        return ActuationFailed(below_usage(below), tuple(check for check, _ in below))
    texts = [str(error) for _, error in failures]
    return ActuationFailed(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _numbers(change: Change) -> dict[str, int]:
    named = {
        "cpu_shares": change.cpu_shares,
        "cpu_quota_us": change.cpu_quota_us,
        "memory_bytes": change.memory_bytes,
    }
    return {key: value for key, value in named.items() if value is not None}
