"""Decides whether a pod may be evicted or resized now. Results change as updates of the same pass are counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from podfit.api.objects import ObjectView
from podfit.vpa.model.objects.pods import containers, phase_of, resource_list
from podfit.vpa.model.objects.policy import container_recommendations, recommendation, update_mode
from podfit.vpa.model.times import Seconds
from podfit.vpa.updater.decide.config import UpdateConfig
from podfit.vpa.updater.decide.groups import Group, PodId, ReplicasOf, grouped, pod_id
from podfit.vpa.updater.decide.priority import lower_than
from podfit.vpa.updater.decide.resizing import ResizeStatus, is_resizing, resize_status


class Decision(Enum):
    APPROVED = "InPlaceApproved"
    DEFERRED = "InPlaceDeferred"
    EVICT = "InPlaceEvict"
    INFEASIBLE = "InPlaceInfeasible"
    INFEASIBLE_CACHED = "InPlaceInfeasibleCached"


@dataclass(slots=True)
class Attempts:
    """The updater's records of attempted updates, which it keeps between passes."""

    resizing_since: dict[PodId, Seconds] = field(default_factory=dict)
    infeasible: dict[str, ObjectView] = field(default_factory=dict)
    """The recommendation that was infeasible for a pod (by UID)."""
    easing: set[str] = field(default_factory=set)
    """Pods (by UID) that were lowered only part of the way to their target."""

    def forget(self, pods: Iterable[ObjectView], config: UpdateConfig) -> None:
        """Drops records of deleted pods and, if configured, of completed resizes."""
        alive = list(pods)
        uids = {(pod.get("metadata") or {}).get("uid") for pod in alive}
        self.infeasible = {uid: entry for uid, entry in self.infeasible.items() if uid in uids}
        self.easing &= uids
        if config.timeouts_per_attempt:
            resizing = {pod_id(pod) for pod in alive if is_resizing(pod)}
            self.resizing_since = {id: since for id, since in self.resizing_since.items() if id in resizing}


class Restriction:
    """The budgets of one autoscaler's pods for one pass."""

    def __init__(
        self,
        pods: Iterable[ObjectView],
        vpa: ObjectView,
        replicas_of: ReplicasOf,
        config: UpdateConfig,
        attempts: Attempts,
    ) -> None:
        self.vpa = vpa
        self.config = config
        self.attempts = attempts
        self.groups, self.creators = grouped(pods, vpa, replicas_of, config)

    def group_of(self, pod: ObjectView) -> Group | None:
        creator = self.creators.get(pod_id(pod))
        return self.groups[creator] if creator is not None else None

    def can_evict(self, pod: ObjectView, clock: Seconds) -> bool:
        group = self.group_of(pod)
        if group is None or not group.recreated:
            return False
        if phase_of(pod) == "Pending":
            return True
        if group.below_minimum:
            return False
        if is_resizing(pod):
            return self._resize_timed_out(pod, group, clock)
        return group.disruptable

    def count_eviction(self, pod: ObjectView) -> None:
        group = self.group_of(pod)
        if group is not None and phase_of(pod) != "Pending":
            group.evicted += 1

    def can_resize(self, pod: ObjectView, clock: Seconds) -> Decision:
        group = self.group_of(pod)
        if not self.config.in_place_allowed(self.vpa) or group is None or phase_of(pod) == "Pending":
            return Decision.DEFERRED
        if recommendation(self.vpa) is None:
            return Decision.DEFERRED
        in_place_only = update_mode(self.vpa) == "InPlace"
        if in_place_only and self._known_infeasible(pod):
            return Decision.INFEASIBLE_CACHED
        if is_resizing(pod):
            if in_place_only:
                failed = resize_status(pod) in (ResizeStatus.INFEASIBLE, ResizeStatus.ERROR)
                return Decision.INFEASIBLE if failed else Decision.DEFERRED
            return Decision.EVICT if self._resize_timed_out(pod, group, clock) else Decision.DEFERRED
        if self.config.in_place_skip_disruption_budget and not _restarts_on_resize(pod):
            return Decision.APPROVED
        return Decision.APPROVED if group.disruptable else Decision.DEFERRED

    def can_unboost(self, pod: ObjectView) -> bool:
        group = self.group_of(pod)
        if group is None or phase_of(pod) == "Pending" or is_resizing(pod):
            return False
        return group.disruptable

    def count_resize(self, pod: ObjectView) -> None:
        group = self.group_of(pod)
        if group is not None:
            group.resized += 1

    def remember_infeasible(self, pod: ObjectView) -> None:
        uid = (pod.get("metadata") or {}).get("uid") or ""
        self.attempts.infeasible[uid] = recommendation(self.vpa) or {}

    def _known_infeasible(self, pod: ObjectView) -> bool:
        """Whether the resize was found infeasible before, and no container gets less than it did then."""
        tried = self.attempts.infeasible.get((pod.get("metadata") or {}).get("uid") or "")
        if tried is None:
            return False
        wanted = container_recommendations(self.vpa)
        targets = {entry.get("containerName") or "": resource_list(entry.get("target")) for entry in reversed(wanted)}
        return not lower_than(tried, targets)

    def _resize_timed_out(self, pod: ObjectView, group: Group, clock: Seconds) -> bool:
        since = self.attempts.resizing_since.setdefault(pod_id(pod), clock)
        if not group.disruptable:
            return False
        match resize_status(pod):
            case ResizeStatus.DEFERRED:
                return clock - since > self.config.deferred_timeout_s
            case ResizeStatus.IN_PROGRESS:
                return clock - since > self.config.in_progress_timeout_s
        return True


def _restarts_on_resize(pod: ObjectView) -> bool:
    return any(
        policy.get("restartPolicy") == "RestartContainer"
        for container in containers(pod)
        for policy in container.get("resizePolicy") or ()
    )
