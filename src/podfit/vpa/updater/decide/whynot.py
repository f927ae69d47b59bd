"""Explains why a pod was not changed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity
from podfit.vpa.model.fitting.capping import capped_for_pod
from podfit.vpa.model.fitting.limitranges import NamespaceBounds
from podfit.vpa.model.fitting.unlimited import OTHER_VALUES, held_down
from podfit.vpa.model.objects.pods import containers, controller_of, phase_of, requests_of
from podfit.vpa.model.objects.policy import EVICTING_MODES, IN_PLACE_MODES, container_recommendations, update_mode
from podfit.vpa.model.objects.recommended import Recommended
from podfit.vpa.model.room import amount, shown
from podfit.vpa.model.similar import from_similar
from podfit.vpa.model.times import NEVER, Seconds, from_rfc3339
from podfit.vpa.updater.decide.config import UpdateConfig
from podfit.vpa.updater.decide.groups import required_replicas
from podfit.vpa.updater.decide.priority import Candidate, meets_requirements, priority_of, worth_updating
from podfit.vpa.updater.decide.resizing import ResizeStatus, resize_status
from podfit.vpa.updater.decide.restriction import Restriction

TOO_FEW = "TooFewReplicas"


class WhyNot(NamedTuple):
    reason: str
    message: str
    quiet: bool = False
    """Whether nothing is wrong, so that no Event is emitted."""


def why_not(
    pod: ObjectView,
    vpa: ObjectView,
    restriction: Restriction,
    now: Seconds,
    config: UpdateConfig,
    bounds: NamespaceBounds,
) -> WhyNot:
    mode = update_mode(vpa)
    if mode not in EVICTING_MODES:
        words = f"update mode {mode} never changes running pods; InPlaceOrRecreate, Recreate and Auto do"
        return WhyNot("UpdateModeOff", words, True)
    if not config.in_place_allowed(vpa):
        return WhyNot("GateClosed", "update mode InPlace needs the feature gate InPlace (--feature-gates=InPlace=true)")
    if not container_recommendations(vpa) and from_similar(vpa):
        words = (
            "the recommendation comes from similar containers and applies to new pods only: the pod has no samples yet"
        )
        return WhyNot("FromSimilar", words, True)
    if not container_recommendations(vpa):
        words = "no recommendation yet: it needs samples of the containers' usage"
        return WhyNot("NoRecommendation", words, True)
    if phase_of(pod) == "Pending":
        return WhyNot("PodPending", "the pod has not started (phase Pending): it is checked when it runs", True)
    unneeded = _unneeded(pod, vpa, now, config, bounds)
    return unneeded if unneeded is not None else _restricted(pod, vpa, restriction, config)


def _unneeded(
    pod: ObjectView, vpa: ObjectView, now: Seconds, config: UpdateConfig, bounds: NamespaceBounds
) -> WhyNot | None:
    capped = capped_for_pod(vpa, pod, bounds)
    entries = capped[0] if capped else []
    if not entries:
        own = ", ".join(container.get("name") or "" for container in containers(pod))
        known = ", ".join(sorted(entry.get("containerName") or "" for entry in container_recommendations(vpa)))
        words = f"nothing is recommended for its containers ({own}), only for {known}: it needs samples of their usage"
        return WhyNot("NothingRecommended", words, True)
    priority = priority_of(pod, entries)
    if not worth_updating(pod, vpa, priority, now, config):
        if held := held_down(vpa, pod):
            why = f"{'; '.join(held)}: controlledValues RequestsOnly does not change limits"
            return WhyNot("CappedByLimit", f"{why}; {OTHER_VALUES}")
        if priority.difference == 0:
            return WhyNot("AtTarget", f"the pod has the recommended size: {sizes_of(pod, entries)}", True)
        started = from_rfc3339((pod.get("status") or {}).get("startTime"))
        least = config.in_recommendation_bounds_eviction_lifetime_threshold_s
        if started == NEVER or now < started + least:
            return WhyNot("WithinBounds", _within_bounds(pod, entries, started, least, now), True)
        return WhyNot(
            "SmallDifference",
            f"the difference of {priority.difference:.1%} is below {config.pod_update_threshold:.0%} "
            f"(--pod-update-threshold): {sizes_of(pod, entries)}",
            True,
        )
    if not meets_requirements(Candidate(pod, priority, entries), vpa):
        requirements = ((vpa.get("spec") or {}).get("updatePolicy") or {}).get("evictionRequirements") or ()
        needed = " and ".join(
            f"{requirement.get('changeRequirement')} of {' or '.join(requirement.get('resources') or ())}"
            for requirement in requirements
        )
        return WhyNot(
            "EvictionRequirements",
            f"the autoscaler's evictionRequirements ({needed}) are not met: {sizes_of(pod, entries)}",
        )
    return None


def sizes_of(pod: ObjectView, entries: Iterable[Recommended]) -> str:
    """The containers' requests and recommendations, with units."""
    parts = []
    for entry in entries:
        requests = requests_of(pod, entry.container)
        for resource, target in sorted(entry.target.items()):
            held = requests.get(resource)
            now = _formatted(resource, held) if held is not None else "nothing"
            bounds = ""
            if resource in entry.lower and resource in entry.upper:
                low, high = _formatted(resource, entry.lower[resource]), _formatted(resource, entry.upper[resource])
                bounds = f", bounds {low} to {high}"
            words = f"requests {now} of {resource} (target {_formatted(resource, target)}{bounds})"
            parts.append(f"container {entry.container} {words}")
    return "; ".join(parts)


def _formatted(resource: str, quantity: Quantity) -> str:
    return shown(resource, amount(resource, quantity))


def _within_bounds(pod: ObjectView, entries: list[Recommended], started: Seconds, least: Seconds, now: Seconds) -> str:
    words = f"requests are within the recommended bounds: {sizes_of(pod, entries)}"
    if started == NEVER:
        return f"{words}; it has not started"
    left = started + least - now
    return f"{words}; it is changed to its target when it has run {least / 3600:g} h, in {left / 3600:.1f} h"


def _restricted(pod: ObjectView, vpa: ObjectView, restriction: Restriction, config: UpdateConfig) -> WhyNot:
    group = restriction.group_of(pod)
    if group is None:
        needed = required_replicas(vpa, config)
        return WhyNot(TOO_FEW, f"its controller has fewer than {needed} replicas (minReplicas), or cannot be read")
    if not group.recreated and update_mode(vpa) not in IN_PLACE_MODES:
        mode = "its autoscaler's update mode InPlaceOrRecreate would resize it in place"
        return WhyNot("NotRecreated", f"the pod has no controller that would recreate it after an eviction; {mode}")
    status = resize_status(pod)
    if status is not ResizeStatus.NONE:
        limit = config.deferred_timeout_s if status is ResizeStatus.DEFERRED else config.in_progress_timeout_s
        words = f"an earlier resize is not finished ({status.value.removeprefix('Resize')})"
        evicts = update_mode(vpa) != "InPlace"
        return WhyNot("ResizeUnderWay", f"{words}; it is evicted instead after {limit:g} s" if evicts else words)
    if not group.disruptable:
        allowed = (
            f"{max(1, group.tolerance)} may be changed at once (--eviction-tolerance {config.eviction_tolerance:g})"
        )
        return WhyNot(
            "BudgetUsedUp",
            f"of {group.configured} replicas {group.running} run, and {allowed}: it waits for the others",
        )
    kind = "resized" if update_mode(vpa) in IN_PLACE_MODES else "evicted"
    most = f"{max(1, group.tolerance)} of its {group.configured} replicas may be changed at once"
    return WhyNot(
        "NotYet", f"it is to be {kind} in a later pass: {most} (--eviction-tolerance {config.eviction_tolerance:g})"
    )


def too_few(pod: ObjectView, running: int, configured: int | None, evicted: int, needed: int, mode: str) -> WhyNot:
    """Explains that too few replicas run: either the controller has few, or the updater evicted one whose successor is
    not ready."""
    owner = controller_of(pod) or {}
    name = f"{owner.get('kind')} {owner.get('name')}"
    if configured is None:
        return WhyNot("UnknownController", f"the number of replicas of {name} cannot be read")
    if running < needed <= running + evicted:
        return WhyNot(
            "AwaitingSuccessor",
            f"{evicted} of the {configured} replicas of {name} was evicted by the updater and is not back, "
            f"and {needed} must run (minReplicas)",
        )
    ways = ["more replicas", "a lower minReplicas of the autoscaler"]
    ways += ["mode InPlaceOrRecreate"] if mode not in IN_PLACE_MODES else []
    return WhyNot(
        TOO_FEW,
        f"{name} runs {running} of {configured} replicas, fewer than the {needed} (minReplicas) that a disruption "
        f"needs: {' or '.join(ways)} would allow the change",
    )
