"""One autoscaler's part of a pass: runs the pure decision, and performs the actions that it yields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from podfit.vpa.model.changing.waits import Wait
from podfit.vpa.model.objects.policy import EVICTING_MODES, IN_PLACE_MODES, update_mode
from podfit.vpa.serve.measures import size_class
from podfit.vpa.updater.acting.changes import evict, lowers, resize
from podfit.vpa.updater.decide.actions import Resize
from podfit.vpa.updater.decide.config import UpdateConfig
from podfit.vpa.updater.decide.groups import creator_of, required_replicas
from podfit.vpa.updater.decide.one_pass import Action, PassReport, update_pass
from podfit.vpa.updater.decide.restriction import Restriction
from podfit.vpa.updater.decide.whynot import TOO_FEW, WhyNot, too_few, why_not
from podfit.vpa.updater.vpa_pass import VpaPass


async def update_one(work: VpaPass) -> None:
    """Decides, acts and reports for one autoscaler, once the cluster has been observed."""
    updater, world = work.updater, work.world
    own = replace(world, vpas=[work.vpa], pods=work.pods)
    conversation = update_pass(own, work.attempts, updater.config.model, work.now, updater.clock.monotonic())
    report = PassReport()
    held = updater.stops.holding(work.vpa)
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


async def _do(work: VpaPass, action: Action) -> str | None:
    """Performs an action. None if it succeeded, else why not."""
    updater = work.updater
    name = action.pod["metadata"]["name"]
    waiting = updater.stops.holding(work.vpa) or _behind_others(work, action)
    if waiting is None:
        waiting = await (resize(work, action) if isinstance(action, Resize) else evict(work, action))
    if waiting is None:
        work.rollout.changed(action.pod)
        work.waits.pop(name, None)
        return None
    work.waits.setdefault(name, waiting)
    return waiting.message


def _behind_others(work: VpaPass, action: Action) -> Wait | None:
    """Why the pod has to wait for other pods of its autoscaler. The end of a startup boost never waits."""
    if isinstance(action, Resize) and action.unboosted:
        return None
    return work.rollout.wait(action.pod, raises=isinstance(action, Resize) and not lowers(action))


# --- reporting


def _report(work: VpaPass, report: PassReport) -> None:
    updater, config = work.updater, work.updater.config.model
    done = {pod["metadata"]["name"] for _, pod in [*report.evicted, *report.resized]}
    restriction = Restriction(work.pods, work.vpa, work.world.replicas_of, config, work.attempts)
    reasons: dict[str, WhyNot] = {}
    for pod in work.pods:
        name = pod["metadata"]["name"]
        if name in done:
            continue
        wait = work.waits.get(name)
        if wait is not None:
            reasons[name] = WhyNot(wait.reason, wait.message, wait.reason == "AtTarget")
            continue
        found = why_not(pod, work.vpa, restriction, work.now, config, work.bounds)
        reasons[name] = _counted(work, pod, config) if found.reason == TOO_FEW else found
    updater.skip_reasons.report(work.vpa, reasons, work.now)
    _measure(work, report)


def _counted(work: VpaPass, pod: Any, config: UpdateConfig) -> WhyNot:
    """Explains which replicas of the pod's controller are missing, and whether the updater evicted them itself."""
    creator = creator_of(pod)
    running = sum(creator_of(other) == creator for other in work.pods)
    evicted = sum(successor.controller == tuple(creator) for successor in work.updater.headroom.successors)
    configured = running if creator.kind == "Job" else work.world.replicas_of(creator)
    return too_few(pod, running, configured, evicted, required_replicas(work.vpa, config), update_mode(work.vpa))


def _measure(work: VpaPass, report: PassReport) -> None:
    """Updates the metrics. Gauges cover whole passes; actions between two passes are only counted."""
    failed = list(_attempted(work, report))
    if not work.hurried:
        _gauge(work, report, failed)
    _count(work, report, failed)


def _gauge(work: VpaPass, report: PassReport, failed: list[str]) -> None:
    measures, mode, size = work.updater.measures, update_mode(work.vpa), size_class(len(work.pods))
    measures.controlled.labels(size, mode).inc(len(work.pods))
    if mode in IN_PLACE_MODES:
        measures.resizable.labels(size).inc(report.resizable)
        measures.vpas_resizable.labels(size).inc(report.resizable > 0)
    if mode in IN_PLACE_MODES or report.resized:
        # Boosts are reverted in place in every mode.
        measures.vpas_resized.labels(size).inc(bool(report.resized))
    tried = bool(report.evicted) or any(reason.startswith("Eviction") for reason in failed)
    measures.evictable.labels(size, mode).inc(report.evictable)
    measures.vpas_evictable.labels(size, mode).inc(tried or report.evictable > 0)
    measures.vpas_evicted.labels(size, mode).inc(bool(report.evicted))


def _count(work: VpaPass, report: PassReport, failed: list[str]) -> None:
    measures, mode, size = work.updater.measures, update_mode(work.vpa), size_class(len(work.pods))
    names = work.vpa["metadata"]["name"], work.vpa["metadata"].get("namespace", "")
    if mode in IN_PLACE_MODES or report.resized:
        measures.resized.labels(size, *names).inc(len(report.resized))
    if mode in EVICTING_MODES or report.evicted:
        # Zero is also recorded: if a series begins at 1, Prometheus sees no increase.
        measures.evicted.labels(size, mode, *names).inc(len(report.evicted))
        measures.undone.labels(*names)
    for reason in failed:
        if reason.startswith("Eviction"):
            measures.failed_evictions.labels(size, mode, *names, reason).inc()
        else:
            measures.failed_resizes.labels(size, *names, reason).inc()


def _attempted(work: VpaPass, report: PassReport) -> Iterator[str]:
    """The reasons of failed attempts. Changes that were stopped before (by a freeze, or for lack of capacity) are not
    attempts."""
    for _, pod, reason, _ in report.failed:
        wait = work.waits.get(pod["metadata"]["name"])
        if wait is None or wait.reason in ("ResizeRefused", "EvictionRefused"):
            yield reason
        elif wait.reason.endswith("RateLimiterWaitFailed"):
            yield wait.reason
