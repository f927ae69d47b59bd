"""One change of one pod, from the check of free capacity to the API server's response."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity
from podfit.vpa.model.changing.rolling import note_policy
from podfit.vpa.model.changing.waits import Wait
from podfit.vpa.model.fitting.squeeze import Fitted, lowest
from podfit.vpa.model.objects.pods import containers, requests_of
from podfit.vpa.model.objects.policy import RESOURCES, container_recommendations
from podfit.vpa.model.room import amount, amounts_of, shown, shown_all
from podfit.vpa.observe.quotas import counted_by_quota, growth
from podfit.vpa.updater.acting.restarts import restarted_by
from podfit.vpa.updater.decide.actions import Evict, Resize
from podfit.vpa.updater.decide.pacing.amend import ResizeBounds, SpareRoom, amend, cut_short, eased
from podfit.vpa.updater.vpa_pass import VpaPass


async def resize(work: VpaPass, action: Resize) -> Wait | None:
    """Resizes a pod. None if it succeeded, else why the pod has to wait."""
    updater, headroom = work.updater, work.updater.headroom
    resize_bounds = ResizeBounds(updater.config.scale_down_step, updater.undo.floors(work.id))
    node, left = headroom.node_left(action.pod, lambda: _growth(action))
    room = SpareRoom(left, headroom.quotas.left(work.id[0]), node)
    amended = amend(action, room, resize_bounds, _lower_bounds(work.vpa))
    uid = action.pod["metadata"].get("uid", "")
    if amended is None:
        work.attempts.easing.discard(uid)
        return _unchanged(work, action)
    if isinstance(amended, Wait):
        updater.waiting.setdefault(uid, updater.clock.monotonic())
        return amended
    updater.waiting.pop(uid, None)
    more = _growth(amended)
    headroom.reserve(action.pod, more)
    amended = replace(amended, annotations=[*amended.annotations, *note_policy(work.vpa, work.now)])
    waiting, answered = await _restart_or_send(work, amended)
    # From here on the pod in the response is counted. The quota stays reserved, because it is read once per pass.
    headroom.reserve(action.pod, more, -1)
    if answered is None:
        return waiting
    headroom.quotas.take(work.id[0], more)
    headroom.count(answered)
    if eased(action, amended):
        work.attempts.easing.add(uid)
    else:
        work.attempts.easing.discard(uid)
    updater.undo.note(amended, work.vpa)
    if cut := cut_short(action, amended):
        words = f"{cut}: the capacity left on {node} and in the quota"
        updater.skip_reasons.cut(work.vpa, action.pod["metadata"]["name"], words)
    return None


def _unchanged(work: VpaPass, action: Resize) -> Wait:
    """Explains why nothing of the resize is left: the pod has its target, or an undo prevents a decrease."""
    kept = []
    for (index, kind, resource), wanted in sorted(action.changes.items()):
        name = containers(action.pod)[index].get("name") or ""
        held = requests_of(action.pod, name).get(resource)
        if kind == "requests" and resource in RESOURCES and held is not None and held != wanted:
            sizes = f"{shown(resource, amount(resource, held))} of {resource}"
            kept.append(f"container {name} keeps {sizes} instead of {shown(resource, amount(resource, wanted))}")
    if not kept:
        return Wait("AtTarget", "the pod has the recommended size")
    hold = work.updater.config.undo_hold
    return Wait(
        "HeldByUndo", f"{'; '.join(kept)}: a resize was undone, and it is not lowered for {hold:g} s after that"
    )


async def _restart_or_send(work: VpaPass, amended: Resize) -> tuple[Wait | None, Any]:
    restarts = work.updater.restarts
    names = restarted_by(amended)
    if not names:
        return await _send_resize(work, amended)
    waiting = await restarts.ask(work, amended.pod, names)
    if waiting is not None:
        return waiting, None
    waiting, answered = await _send_resize(work, amended)
    if answered is None:
        restarts.forget(amended.pod)
    return waiting, answered


async def _send_resize(work: VpaPass, amended: Resize) -> tuple[Wait | None, Any]:
    updater = work.updater
    if not updater.budget.take():
        return _budget_used_up(work), None
    if not await updater.resize_rate.wait(work.deadline):
        updater.budget.back()
        return _rate_used_up(work, "InPlaceUpdateRateLimiterWaitFailed"), None
    if (held := updater.stops.holding(work.vpa)) is not None:
        # Changes were frozen while this resize waited.
        updater.budget.back()
        return held, None
    answered, error = await updater.writes.resize(amended)
    if answered is None:
        updater.budget.back()
        return Wait("ResizeRefused", error or ""), None
    return None, answered


async def evict(work: VpaPass, action: Evict) -> Wait | None:
    """Evicts a pod. None if it succeeded, else why the pod has to wait."""
    updater, pod = work.updater, action.pod
    held = work.waits.get(pod["metadata"]["name"])
    if held is not None and held.reason != "ResizeRefused" and not _waited_enough(work, pod):
        return held
    if work.no_eviction is not None:
        return work.no_eviction
    found = updater.headroom.place(work.vpa, pod, work.bounds)
    if not found.fits:
        return _no_place(work, pod)
    if _gains_nothing(pod, found):
        return Wait(
            "NoRoom",
            f"its successor would get no more than the pod has, {shown_all(amounts_of(pod))}: "
            "it is evicted when a node or the quota has more room",
        )
    # Capacity is reserved before anything is awaited, because other decisions are made in the meantime.
    successor = updater.headroom.guarantee(pod, found.pod, work.now)
    waiting = await _send_eviction(work, action)
    if waiting is not None:
        updater.headroom.withdraw(successor)
    elif found.notes:
        updater.skip_reasons.cut(
            work.vpa, pod["metadata"]["name"], f"its successor gets less: {'; '.join(found.notes)}"
        )
    return waiting


async def _send_eviction(work: VpaPass, action: Evict) -> Wait | None:
    updater = work.updater
    if not updater.budget.take():
        return _budget_used_up(work)
    if not await updater.eviction_rate.wait(work.deadline):
        updater.budget.back()
        return _rate_used_up(work, "EvictionRateLimiterWaitFailed")
    if (frozen := updater.stops.holding(work.vpa)) is not None:
        updater.budget.back()
        return frozen
    error = await updater.writes.evict(action)
    if error is None:
        return None
    updater.budget.back()
    return Wait("EvictionRefused", error)


def _no_place(work: VpaPass, pod: Any) -> Wait:
    headroom, least = work.updater.headroom, lowest(work.vpa, pod, work.bounds)
    over = headroom.quotas.missing(work.id[0], growth(counted_by_quota(pod), counted_by_quota(least)))
    if over:
        return Wait(
            "QuotaExceeded",
            f"{over} for the recommended minimum: an evicted pod could not be recreated. "
            "A larger quota or less use of it would change that",
        )
    claimed, stuck = headroom.ledger.claimed, headroom.ledger.stuck
    besides = ""
    if claimed["pods"] or stuck:
        besides = f", beside {claimed['pods'] + len(stuck)} other pods that need one ({shown_all(claimed)})"
    return Wait(
        "NoNodeFits",
        f"no node has room for the successor at the recommended minimum, {shown_all(amounts_of(least))}{besides}: "
        "it is evicted when a node has",
    )


def _gains_nothing(pod: ObjectView, found: Fitted) -> bool:
    """Whether every container that should grow keeps its size for lack of capacity, and none shrinks."""
    if not found.notes:
        return False
    for old, new in zip(containers(pod), containers(found.pod), strict=True):
        now = requests_of(pod, old.get("name") or "")
        for resource, text in ((new.get("resources") or {}).get("requests") or {}).items():
            if resource in RESOURCES and (resource not in now or Quantity.parse(text) != now[resource]):
                grows = resource not in now or Quantity.parse(text) > now[resource]
                # A container that should grow would be cut below its current size, which would make things worse.
                if grows or not _was_to_grow(found, old.get("name") or "", resource, now[resource]):
                    return False
    return True


def _was_to_grow(found: Fitted, container: str, resource: str, now: Quantity) -> bool:
    target = found.targets.get((container, resource))
    return target is not None and target > amount(resource, now)


def _waited_enough(work: VpaPass, pod: ObjectView) -> bool:
    since = work.updater.waiting.get(pod["metadata"].get("uid", ""))
    return since is not None and work.updater.clock.monotonic() - since > work.updater.config.deferred_timeout


def _growth(amended: Resize) -> dict[str, int]:
    """The requested growth, by quota names."""
    found: dict[str, int] = {}
    for (index, kind, resource), wanted in amended.changes.items():
        if resource in RESOURCES:
            spec = (containers(amended.pod)[index].get("resources") or {}).get(kind) or {}
            before = Quantity.parse(spec.get(resource) or "0")
            name = f"{kind}.{resource}"
            found[name] = found.get(name, 0) + amount(resource, wanted) - amount(resource, before)
    return found


def lowers(action: Resize) -> bool:
    """Whether the resize lowers any request or limit."""
    return any(more < 0 for more in _growth(action).values())


def _lower_bounds(vpa: ObjectView) -> dict[tuple[str, str], int]:
    found = {}
    for entry in container_recommendations(vpa):
        for resource, text in (entry.get("lowerBound") or {}).items():
            if resource in RESOURCES:
                found[entry["containerName"], resource] = amount(resource, Quantity.parse(text))
    return found


def _budget_used_up(work: VpaPass) -> Wait:
    rate = work.updater.config.changes_per_minute
    return Wait("ChangeBudget", f"the cluster's {rate:g} changes per minute (--changes-per-minute) are exhausted")


def _rate_used_up(work: VpaPass, reason: str) -> Wait:
    rate = work.updater.config.eviction_rate_limit
    return Wait(reason, f"the {rate:g} changes per second of --eviction-rate-limit are exhausted for this pass")
