"""Why a pod was left as it is, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from podfit.vpa.model.capping import capped_for_pod
from podfit.vpa.model.limitranges import NamespaceBounds
from podfit.vpa.model.pods import phase_of
from podfit.vpa.model.policy import EVICTING_MODES, IN_PLACE_MODES, container_recommendations, update_mode
from podfit.vpa.model.times import NEVER, Seconds, from_rfc3339
from podfit.vpa.model.unlimited import OTHER_VALUES, held_down
from podfit.vpa.updater.decide.config import Config
from podfit.vpa.updater.decide.groups import required_replicas
from podfit.vpa.updater.decide.priority import Candidate, meets_requirements, priority_of, worth_updating
from podfit.vpa.updater.decide.resizing import ResizeStatus, resize_status
from podfit.vpa.updater.decide.restriction import Restriction

Object = Mapping[str, Any]


class WhyNot(NamedTuple):
    reason: str
    message: str
    quiet: bool = False
    """All is well: nothing to tell anybody about."""


def why_not(
    pod: Object, vpa: Object, restriction: Restriction, now: Seconds, config: Config, bounds: NamespaceBounds
) -> WhyNot:
    mode = update_mode(vpa)
    if mode not in EVICTING_MODES:
        return WhyNot("UpdateModeOff", f"update mode {mode} never changes running pods", True)
    if not config.in_place_allowed(vpa):
        return WhyNot("GateClosed", "update mode InPlace needs the feature gate InPlace")
    if not container_recommendations(vpa):
        return WhyNot("NoRecommendation", "there is no recommendation yet", True)
    if phase_of(pod) == "Pending":
        return WhyNot("PodPending", "the pod has not started", True)
    unneeded = _unneeded(pod, vpa, now, config, bounds)
    return unneeded if unneeded is not None else _restricted(pod, vpa, restriction, config)


def _unneeded(pod: Object, vpa: Object, now: Seconds, config: Config, bounds: NamespaceBounds) -> WhyNot | None:
    capped = capped_for_pod(vpa, pod, bounds)
    entries = capped[0] if capped else []
    if not entries:
        return WhyNot("NothingRecommended", "nothing is recommended for its containers", True)
    priority = priority_of(pod, entries)
    if not worth_updating(pod, vpa, priority, now, config):
        if held := held_down(vpa, pod):
            why = f"{'; '.join(held)}: controlledValues RequestsOnly leaves limits alone"
            return WhyNot("CappedByLimit", f"{why}; {OTHER_VALUES}")
        if priority.difference == 0:
            return WhyNot("AtTarget", "the pod has what is recommended", True)
        started = from_rfc3339((pod.get("status") or {}).get("startTime"))
        least = config.in_recommendation_bounds_eviction_lifetime_threshold_s
        if started == NEVER or now < started + least:
            return WhyNot(
                "WithinBounds",
                f"requests are within the recommended bounds, and it runs less than {least / 3600:g} h",
                True,
            )
        return WhyNot(
            "SmallDifference",
            f"the difference of {priority.difference:.1%} is below the threshold of {config.pod_update_threshold:.0%}",
            True,
        )
    if not meets_requirements(Candidate(pod, priority, entries), vpa):
        return WhyNot("EvictionRequirements", "the autoscaler's evictionRequirements are not met")
    return None


def _restricted(pod: Object, vpa: Object, restriction: Restriction, config: Config) -> WhyNot:
    group = restriction.group_of(pod)
    if group is None:
        needed = required_replicas(vpa, config)
        return WhyNot("TooFewReplicas", f"its controller has fewer than {needed} replicas, or cannot be read")
    if not group.recreated and update_mode(vpa) not in IN_PLACE_MODES:
        mode = "its autoscaler's update mode InPlaceOrRecreate would resize it in place"
        return WhyNot("NotRecreated", f"the pod has no controller that would recreate it after an eviction; {mode}")
    status = resize_status(pod)
    if status is not ResizeStatus.NONE:
        return WhyNot("ResizeUnderWay", f"an earlier resize is not finished ({status.value.removeprefix('Resize')})")
    if not group.disruptable:
        return WhyNot("BudgetUsedUp", "enough of its replicas are being changed already")
    kind = "resized" if update_mode(vpa) in IN_PLACE_MODES else "evicted"
    return WhyNot("NotYet", f"it is to be {kind} in a later pass")
