"""Decides which pods are updated, and in which order."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from podfit.api.objects import ObjectView
from podfit.vpa.model.fitting.capping import capped_for_pod
from podfit.vpa.model.fitting.limitranges import NO_BOUNDS, NamespaceBounds
from podfit.vpa.model.objects.pods import ResourceList, annotations_of, containers, requests_of, resource_list
from podfit.vpa.model.objects.policy import container_policy, scaling_off, update_mode
from podfit.vpa.model.objects.recommended import Recommended
from podfit.vpa.model.times import NEVER, Seconds, from_rfc3339
from podfit.vpa.updater.decide.config import UpdateConfig

OBSERVED = "vpaObservedContainers"
MOST = 2**63 - 1
"""The largest meaningful number of thousandths; a number with hundreds of digits is not a usable fraction."""
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Priority:
    outside_range: bool
    scale_up: bool
    difference: float
    """Summed over resources: the distance of requests from the target, relative to the requests."""


@dataclass(frozen=True, slots=True)
class Candidate:
    pod: ObjectView
    priority: Priority
    recommended: list[Recommended]


def observed_containers(pod: ObjectView) -> frozenset[str] | None:
    """The containers that admission processed; None if the pod has no valid annotation of it."""
    text = annotations_of(pod).get(OBSERVED)
    if text is None:
        return None
    names = text.split(", ") if text else []
    return frozenset(names) if all(_LABEL.fullmatch(name) for name in names) else None


def priority_of(pod: ObjectView, recommended: Iterable[Recommended]) -> Priority:
    entries = {entry.container: entry for entry in reversed(list(recommended))}
    observed = observed_containers(pod)
    requested: dict[str, int] = {}
    wanted: dict[str, int] = {}
    outside = up = False
    for container in containers(pod):
        name = container.get("name") or ""
        if name not in entries or (observed is not None and name not in observed):
            continue
        entry, requests = entries[name], requests_of(pod, name)
        for resource, target in entry.target.items():
            wanted[resource] = min(wanted.get(resource, 0) + target.milli, MOST)
            request = requests.get(resource)
            if request is None:
                outside = up = True
                continue
            requested[resource] = min(requested.get(resource, 0) + request.milli, MOST)
            up |= target.milli > request.milli
            low, high = entry.lower.get(resource), entry.upper.get(resource)
            outside |= (low is not None and request < low) or (high is not None and request > high)
    difference = 0.0
    for resource, target_milli in sorted(wanted.items()):
        base = max(float(requested.get(resource, 0)), 1.0)
        difference += abs(base - float(target_milli)) / base
    return Priority(outside, up, difference)


def quick_oom(pod: ObjectView, vpa: ObjectView, config: UpdateConfig) -> bool:
    """Whether a scaled container ran out of memory soon after its start."""
    observed = observed_containers(pod)
    policy = (vpa.get("spec") or {}).get("updatePolicy") or {}
    threshold = config.evict_after_oom_threshold_s
    if config.gate("PerVPAConfig") and policy.get("evictAfterOOMSeconds") is not None:
        threshold = policy["evictAfterOOMSeconds"]
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        name = status.get("name") or ""
        if (observed is not None and name not in observed) or scaling_off(container_policy(vpa, name)):
            continue
        ended = (status.get("lastState") or {}).get("terminated") or {}
        if ended.get("reason") != "OOMKilled":
            continue
        if from_rfc3339(ended.get("finishedAt")) - from_rfc3339(ended.get("startedAt")) < threshold:
            return True
    return False


def worth_updating(pod: ObjectView, vpa: ObjectView, priority: Priority, now: Seconds, config: UpdateConfig) -> bool:
    oomed = quick_oom(pod, vpa, config)
    if not priority.outside_range and not oomed:
        started = from_rfc3339((pod.get("status") or {}).get("startTime"))
        if started == NEVER or now < started + config.in_recommendation_bounds_eviction_lifetime_threshold_s:
            return False
        if priority.difference < config.pod_update_threshold:
            return False
    # A restart without a change does not help a container that runs out of memory.
    return not (oomed and priority.difference == 0)


def candidates(
    pods: Iterable[ObjectView],
    vpa: ObjectView,
    now: Seconds,
    config: UpdateConfig,
    bounds: NamespaceBounds = NO_BOUNDS,
    infeasible: Mapping[str, ObjectView] | None = None,
    easing: Collection[str] = (),
) -> list[Candidate]:
    """The pods to update: those that must grow first, then the ones furthest from their target.

    `infeasible` has, by UID, recommendations that were infeasible for pods: in mode InPlace only smaller ones are
    retried. Pods that are `easing` continue down to their target, although they are within its bounds already.
    """
    found = []
    tried = (infeasible or {}) if update_mode(vpa) == "InPlace" else {}
    for pod in pods:
        capped = capped_for_pod(vpa, pod, bounds)
        recommended = capped[0] if capped else []
        if not recommended:
            continue
        uid = (pod.get("metadata") or {}).get("uid") or ""
        before = tried.get(uid)
        if before is not None and not lower_than(before, {entry.container: entry.target for entry in recommended}):
            continue
        priority = priority_of(pod, recommended)
        goes_on = uid in easing and priority.difference > 0 and not priority.scale_up
        if goes_on or worth_updating(pod, vpa, priority, now, config):
            found.append(Candidate(pod, priority, recommended))
    found.sort(key=lambda entry: (not entry.priority.scale_up, -entry.priority.difference))
    return [entry for entry in found if meets_requirements(entry, vpa)]


def lower_than(tried: ObjectView, wanted: Mapping[str, ResourceList]) -> bool:
    """Whether a container gets less of a resource than in `tried`."""
    for entry in tried.get("containerRecommendations") or ():
        now = wanted.get(entry.get("containerName") or "") or {}
        for resource, amount in resource_list(entry.get("target")).items():
            if resource in now and now[resource] < amount:
                return True
    return False


def meets_requirements(candidate: Candidate, vpa: ObjectView) -> bool:
    """Whether the pod meets the evictionRequirements. One container is enough, if it lacks a request or meets
    them all."""
    requirements = ((vpa.get("spec") or {}).get("updatePolicy") or {}).get("evictionRequirements") or []
    if not requirements:
        return True
    targets = {entry.container: entry.target for entry in reversed(candidate.recommended)}
    for container in containers(candidate.pod):
        name = container.get("name") or ""
        if name not in targets:
            continue
        requests = requests_of(candidate.pod, name)
        if "cpu" not in requests or "memory" not in requests:
            return True
        if all(_fulfilled(requirement, targets[name], requests) for requirement in requirements):
            return True
    return False


def _fulfilled(requirement: ObjectView, target: Mapping[str, Any], requests: Mapping[str, Any]) -> bool:
    for resource in requirement.get("resources") or ():
        wanted = target[resource].milli if resource in target else 0
        current = requests[resource].milli if resource in requests else 0
        if requirement.get("changeRequirement") == "TargetHigherThanRequests" and wanted > current:
            return True
        if requirement.get("changeRequirement") == "TargetLowerThanRequests" and wanted < current:
            return True
    return False
