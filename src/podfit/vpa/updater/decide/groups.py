"""The replicas of one controller, and how many of them may be disrupted at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from podfit.api.objects import ObjectView
from podfit.vpa.model.changing.boost import boosted_containers
from podfit.vpa.model.objects.matching import own_selector
from podfit.vpa.model.objects.pods import controller_of, phase_of
from podfit.vpa.model.objects.policy import IN_PLACE_MODES, update_mode
from podfit.vpa.updater.decide.config import UpdateConfig
from podfit.vpa.updater.decide.resizing import is_resizing

PodId = tuple[str, str]


class GroupKey(NamedTuple):
    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return "/".join(self)


ReplicasOf = Callable[[GroupKey], int | None]
"""A controller's desired replicas (a DaemonSet: ready ones); None if unknown. 0 for unknown kinds."""


@dataclass(slots=True)
class Group:
    configured: int
    tolerance: int
    pending: int
    running: int
    resizing: int
    below_minimum: bool = False
    evicted: int = 0
    resized: int = 0
    recreated: bool = True
    """False for pods without a controller: they would not be recreated, so they are resized in place or not at all."""

    @property
    def disruptable(self) -> bool:
        """Whether one more replica may be disrupted. A controller too small for the tolerance may lose one replica at a
        time."""
        disturbed = self.evicted + self.resized
        if self.running - disturbed > self.configured - self.tolerance:
            return True
        return self.configured == self.running and self.tolerance == 0 and disturbed == 0


def pod_id(pod: ObjectView) -> PodId:
    meta = pod.get("metadata") or {}
    return meta.get("namespace") or "", meta.get("name") or ""


def creator_of(pod: ObjectView) -> GroupKey:
    """The controller of a pod. Pods without one form a nameless group, since an autoscaler with a selector may control
    them."""
    owner = controller_of(pod) or {}
    return GroupKey(pod_id(pod)[0], owner.get("kind") or "", owner.get("name") or "")


def grouped(
    pods: Iterable[ObjectView], vpa: ObjectView, replicas_of: ReplicasOf, config: UpdateConfig
) -> tuple[dict[GroupKey, Group], dict[PodId, GroupKey]]:
    """The groups of replicas that may be changed at all, and the group of each of their pods."""
    members: dict[GroupKey, list[ObjectView]] = {}
    for pod in pods:
        members.setdefault(creator_of(pod), []).append(pod)
    groups, creators = {}, {}
    for creator, replicas in members.items():
        group = _group(creator, replicas, vpa, replicas_of, config)
        if group is not None:
            groups[creator] = group
            creators.update({pod_id(pod): creator for pod in replicas})
    return groups, creators


def _group(
    creator: GroupKey, replicas: list[ObjectView], vpa: ObjectView, replicas_of: ReplicasOf, config: UpdateConfig
) -> Group | None:
    if not creator.kind and own_selector(vpa) is not None:
        pending = sum(phase_of(pod) == "Pending" for pod in replicas)
        running = len(replicas) - pending
        return Group(running, 0, pending, running, sum(map(is_resizing, replicas)), recreated=False)
    below = False
    if len(replicas) < required_replicas(vpa, config):
        in_place = config.in_place_skip_disruption_budget and update_mode(vpa) in IN_PLACE_MODES
        if not in_place and not any(boosted_containers(pod) for pod in replicas):
            return None
        below = in_place
    configured = len(replicas) if creator.kind == "Job" else replicas_of(creator)
    if configured is None:
        return None
    pending = sum(phase_of(pod) == "Pending" for pod in replicas)
    return Group(
        configured,
        int(configured * config.eviction_tolerance),
        pending,
        len(replicas) - pending,
        sum(map(is_resizing, replicas)),
        below,
    )


def required_replicas(vpa: ObjectView, config: UpdateConfig) -> int:
    own = ((vpa.get("spec") or {}).get("updatePolicy") or {}).get("minReplicas")
    return config.min_replicas if own is None else int(own)
