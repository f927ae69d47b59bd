"""One autoscaler's part of a pass: leads the conversation with the pure decision and answers for the world."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from podfit.api.quantity import Quantity
from podfit.vpa.model.container_resources import resources_for_pod
from podfit.vpa.model.limitranges import NamespaceBounds
from podfit.vpa.model.pods import containers, requests_of
from podfit.vpa.model.policy import EVICTING_MODES, IN_PLACE_MODES, RESOURCES, container_recommendations, update_mode
from podfit.vpa.model.waits import Wait
from podfit.vpa.serve.measures import size_class
from podfit.vpa.updater.decide.actions import Evict, Resize
from podfit.vpa.updater.decide.amend import Rails, amend, cut_short, eased
from podfit.vpa.updater.decide.one_pass import Action, Report, World, update_pass
from podfit.vpa.updater.decide.restriction import Attempts, Restriction
from podfit.vpa.updater.decide.whynot import WhyNot, why_not

if TYPE_CHECKING:
    from podfit.vpa.updater.loop import Updater

Object = Mapping[str, Any]
UNCHANGED = "the pod has what it may get at present"


@dataclass(slots=True)
class Work:
    updater: Updater
    world: World
    vpa: Any
    pods: list[Any]
    attempts: Attempts
    now: float
    deadline: float
    evicting: bool
    """Whether evictions are sensible: the webhook that sizes new pods lives."""
    waits: dict[str, Wait] = field(default_factory=dict)
    """By pod name: why it was refused in this pass."""

    @property
    def bounds(self) -> NamespaceBounds:
        return self.world.bounds(self.vpa["metadata"].get("namespace", ""))


async def update_one(work: Work) -> None:
    """Observe is done; decides, acts and reports for one autoscaler."""
    updater, world = work.updater, work.world
    own = replace(world, vpas=[work.vpa], pods=work.pods)
    conversation = update_pass(own, work.attempts, updater.config.model, work.now, updater.clock.monotonic())
    report = Report()
    held = updater.brakes.holding(work.vpa)
    if held is not None:
        work.waits = {pod["metadata"]["name"]: held for pod in work.pods}
    else:
        try:
            action = next(conversation)
            while True:
                action = conversation.send(await _do(work, action))
        except StopIteration as end:
            report = end.value
    _report(work, report)


async def _do(work: Work, action: Action) -> str | None:
    """None when it worked, else why not."""
    updater = work.updater
    name = action.pod["metadata"]["name"]
    waiting = updater.brakes.holding(work.vpa)
    if waiting is None:
        waiting = await (_resize(work, action) if isinstance(action, Resize) else _evict(work, action))
    if waiting is None:
        work.waits.pop(name, None)
        return None
    work.waits.setdefault(name, waiting)
    return waiting.message


async def _resize(work: Work, action: Resize) -> Wait | None:
    updater = work.updater
    id = work.vpa["metadata"].get("namespace", ""), work.vpa["metadata"]["name"]
    rails = Rails(updater.config.scale_down_step, updater.undo.floors(id))
    room = updater.headroom.room(action.pod)
    amended = amend(action, room, rails, _lower_bounds(work.vpa))
    uid = action.pod["metadata"].get("uid", "")
    if amended is None:
        work.attempts.easing.discard(uid)
        return Wait("AtTarget", UNCHANGED)
    if isinstance(amended, Wait):
        updater.waiting.setdefault(uid, updater.clock.monotonic())
        return amended
    updater.waiting.pop(uid, None)
    if not updater.budget.take():
        return Wait("ChangeBudget", "the cluster's changes per minute are used up")
    if not await updater.resize_rate.wait(work.deadline):
        updater.budget.back()
        return Wait("InPlaceUpdateRateLimiterWaitFailed", "the rate limit of this pass is used up")
    if (held := updater.brakes.holding(work.vpa)) is not None:
        # Somebody pulled a brake while this one waited for its turn.
        updater.budget.back()
        return held
    answered, error = await updater.hands.resize(amended)
    if answered is None:
        updater.budget.back()
        return Wait("ResizeRefused", error or "")
    if eased(action, amended):
        work.attempts.easing.add(uid)
    else:
        work.attempts.easing.discard(uid)
    updater.headroom.count(answered)
    updater.undo.note(amended, work.vpa)
    if told := cut_short(action, amended):
        words = f"{told}: it is what node {room.node_name} and the quota have left"
        updater.story.cut(work.vpa, action.pod["metadata"]["name"], words)
    return None


async def _evict(work: Work, action: Evict) -> Wait | None:
    updater = work.updater
    held = work.waits.get(action.pod["metadata"]["name"])
    if held is not None and held.reason != "ResizeRefused" and not _waited_enough(work, action.pod):
        return held
    if not work.evicting:
        return Wait("NoAdmission", "the admission webhook is away: an evicted pod would come back unchanged")
    needed = _needed(work, action.pod)
    if not updater.headroom.somewhere_fits(action.pod, needed):
        return Wait("NoNodeFits", f"no node has room for {needed['cpu']}m cpu and {needed['memory']} memory")
    over = _over_quota(updater.headroom.room(action.pod).quota, needed, updater.headroom.asked_by(action.pod))
    if over is not None:
        return over
    if not updater.budget.take():
        return Wait("ChangeBudget", "the cluster's changes per minute are used up")
    if not await updater.eviction_rate.wait(work.deadline):
        updater.budget.back()
        return Wait("EvictionRateLimiterWaitFailed", "the rate limit of this pass is used up")
    if (frozen := updater.brakes.holding(work.vpa)) is not None:
        updater.budget.back()
        return frozen
    error = await updater.hands.evict(action)
    if error is None:
        return None
    updater.budget.back()
    return Wait("EvictionRefused", error)


def _waited_enough(work: Work, pod: Object) -> bool:
    since = work.updater.waiting.get(pod["metadata"].get("uid", ""))
    return since is not None and work.updater.clock.monotonic() - since > work.updater.config.deferred_timeout


def _needed(work: Work, pod: Any) -> dict[str, int]:
    """What the pod will request when it comes back."""
    needed = work.updater.headroom.asked_by(pod)
    wanted = resources_for_pod(work.vpa, pod, work.bounds)[0]
    for container, new in zip(containers(pod), wanted, strict=True):
        now = requests_of(pod, container.get("name") or "")
        for resource in RESOURCES:
            if resource in new.requests:
                old = now.get(resource) or Quantity(0)
                needed[resource] += _amount(resource, new.requests[resource]) - _amount(resource, old)
    return needed


def _over_quota(quota: Mapping[str, int], needed: Mapping[str, int], now: Mapping[str, int]) -> Wait | None:
    for resource in RESOURCES:
        left = quota.get(f"requests.{resource}")
        if left is not None and needed[resource] - now[resource] > max(0, left):
            return Wait("QuotaExceeded", f"the quota has {left} of {resource} left: it could not be created again")
    return None


def _lower_bounds(vpa: Object) -> dict[tuple[str, str], int]:
    found = {}
    for entry in container_recommendations(vpa):
        for resource, amount in (entry.get("lowerBound") or {}).items():
            if resource in RESOURCES:
                found[entry["containerName"], resource] = _amount(resource, Quantity.parse(amount))
    return found


def _amount(resource: str, quantity: Quantity) -> int:
    return quantity.milli if resource == "cpu" else quantity.value


# --- reporting


def _report(work: Work, report: Report) -> None:
    updater, config = work.updater, work.updater.config.model
    done = {pod["metadata"]["name"] for _, pod in [*report.evicted, *report.resized]}
    restriction = Restriction(work.pods, work.vpa, work.world.replicas_of, config, work.attempts)
    reasons: dict[str, WhyNot] = {}
    for pod in work.pods:
        name = pod["metadata"]["name"]
        if name in done:
            continue
        wait = work.waits.get(name)
        reasons[name] = (
            WhyNot(wait.reason, wait.message, wait.message == UNCHANGED)
            if wait is not None
            else why_not(pod, work.vpa, restriction, work.now, config, work.bounds)
        )
    updater.story.tell(work.vpa, reasons, work.now)
    _measure(work, report)


def _measure(work: Work, report: Report) -> None:
    measures, mode, size = work.updater.measures, update_mode(work.vpa), size_class(len(work.pods))
    names = work.vpa["metadata"]["name"], work.vpa["metadata"].get("namespace", "")
    measures.controlled.labels(size, mode).inc(len(work.pods))
    failed = list(_attempted(work, report))
    if mode in IN_PLACE_MODES:
        measures.resizable.labels(size).inc(report.resizable)
        measures.vpas_resizable.labels(size).inc(report.resizable > 0)
    if mode in IN_PLACE_MODES or report.resized:
        # Boosts are taken back in place whatever the mode.
        measures.vpas_resized.labels(size).inc(bool(report.resized))
        measures.resized.labels(size, *names).inc(len(report.resized))
    tried = bool(report.evicted) or any(reason.startswith("Eviction") for reason in failed)
    measures.evictable.labels(size, mode).inc(report.evictable)
    measures.vpas_evictable.labels(size, mode).inc(tried or report.evictable > 0)
    measures.vpas_evicted.labels(size, mode).inc(bool(report.evicted))
    if mode in EVICTING_MODES or report.evicted:
        # Also 0: what begins at 1 shows Prometheus no increase.
        measures.evicted.labels(size, mode, *names).inc(len(report.evicted))
        measures.undone.labels(*names)
    for reason in failed:
        if reason.startswith("Eviction"):
            measures.failed_evictions.labels(size, mode, *names, reason).inc()
        else:
            measures.failed_resizes.labels(size, *names, reason).inc()


def _attempted(work: Work, report: Report) -> Iterator[str]:
    """The reasons of what was tried and failed; what was held back (a brake, no room) was never tried."""
    for _, pod, reason, _ in report.failed:
        wait = work.waits.get(pod["metadata"]["name"])
        if wait is None or wait.reason in ("ResizeRefused", "EvictionRefused"):
            yield reason
        elif wait.reason.endswith("RateLimiterWaitFailed"):
            yield wait.reason
