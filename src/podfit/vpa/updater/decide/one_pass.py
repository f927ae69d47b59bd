"""One pass of the updater over the cluster, as a generator: it yields an action and receives its outcome.

Later actions depend on earlier outcomes: budgets are used up, and a rejected resize becomes an eviction. The generator
does no I/O itself.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field

from podfit.api.objects import ObjectView
from podfit.vpa.model.changing.boost import boosted_containers
from podfit.vpa.model.fitting.limitranges import NamespaceBounds, merged
from podfit.vpa.model.objects.matching import SelectorOf, TopmostOf, by_target, controlling_vpa
from podfit.vpa.model.objects.policy import EVICTING_MODES, IN_PLACE_MODES, has_boost, update_mode
from podfit.vpa.model.times import Seconds
from podfit.vpa.updater.decide.actions import NOTHING_TO_DO, Evict, Resize, expired_boosts, resize
from podfit.vpa.updater.decide.config import UpdateConfig
from podfit.vpa.updater.decide.groups import ReplicasOf
from podfit.vpa.updater.decide.priority import candidates
from podfit.vpa.updater.decide.restriction import Attempts, Decision, Restriction

Action = Evict | Resize
Result = str | None
"""None if the action succeeded, else why not."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The input of a pass: autoscalers, live scheduled pods, and functions that look up owners."""

    vpas: Iterable[ObjectView]
    pods: Iterable[ObjectView]
    selector_of: SelectorOf
    topmost_of: TopmostOf
    replicas_of: ReplicasOf
    limit_ranges: Iterable[ObjectView] = ()
    change_without_recommendation: bool = False
    """Scale containers to a LimitRange where nothing is recommended, as upstream does."""

    def bounds(self, namespace: str) -> NamespaceBounds:
        return merged(self.limit_ranges, namespace, self.change_without_recommendation)


@dataclass(slots=True)
class PassReport:
    """The result of a pass, for metrics and explanations: pods by autoscaler, and failures."""

    controlled: list[tuple[ObjectView, list[ObjectView]]] = field(default_factory=list)
    evicted: list[tuple[ObjectView, ObjectView]] = field(default_factory=list)
    resized: list[tuple[ObjectView, ObjectView]] = field(default_factory=list)
    failed: list[tuple[ObjectView, ObjectView, str, str]] = field(default_factory=list)
    """Autoscaler, pod, reason, message."""
    evictable: int = 0
    """Pods to be evicted in a mode that evicts, whether or not the budget sufficed for all."""
    resizable: int = 0
    """Pods to be resized in a mode that resizes, whether or not the budget sufficed for all."""


def update_pass(
    world: ClusterView, attempts: Attempts, config: UpdateConfig, now: Seconds, clock: Seconds
) -> Generator[Action, Result, PassReport]:
    """Runs a pass. `now` determines the age of pods, `clock` measures resize timeouts (they differ only in
    simulations)."""
    report = PassReport(controlled=controlled_pods(world))
    attempts.forget((pod for _, pods in report.controlled for pod in pods), config)
    for vpa, pods in report.controlled:
        namespace = (vpa.get("metadata") or {}).get("namespace") or ""
        bounds = world.bounds(namespace)
        restriction = Restriction(pods, vpa, world.replicas_of, config, attempts)
        yield from _Pass(vpa, restriction, config, bounds, now, clock, report).run(pods)
    return report


def controlled_pods(world: ClusterView) -> list[tuple[ObjectView, list[ObjectView]]]:
    """The pods of each autoscaler; a pod belongs to the one that controls it."""
    acting = [vpa for vpa in world.vpas if update_mode(vpa) in EVICTING_MODES or has_boost(vpa)]
    index = by_target(acting)
    found: dict[int, list[ObjectView]] = {}
    for pod in world.pods if acting else ():
        if (pod.get("metadata") or {}).get("deletionTimestamp"):
            continue
        vpa = controlling_vpa(pod, index, world.selector_of, world.topmost_of)
        if vpa is not None:
            found.setdefault(id(vpa), []).append(pod)
    return [(vpa, found[id(vpa)]) for vpa in acting if id(vpa) in found]


@dataclass(slots=True)
class _Pass:
    """The pass of one autoscaler."""

    vpa: ObjectView
    restriction: Restriction
    config: UpdateConfig
    bounds: NamespaceBounds
    now: Seconds
    clock: Seconds
    report: PassReport

    def run(self, pods: list[ObjectView]) -> Generator[Action, Result, None]:
        if self.config.gate("CPUStartupBoost") and has_boost(self.vpa):
            pods = yield from self._unboost(pods)
        mode = update_mode(self.vpa)
        if mode not in EVICTING_MODES or not self.config.in_place_allowed(self.vpa):
            return
        if mode in IN_PLACE_MODES:
            to_resize = self._ordered(filter(self._resizable, pods))
            self.report.resizable += len(to_resize)
            to_evict = yield from self._resize_all(to_resize)
        else:
            to_evict = self._ordered(pod for pod in pods if self.restriction.can_evict(pod, self.clock))
            self.report.evictable += len(to_evict)
        for pod in to_evict:
            yield from self._evict(pod)

    def _ordered(self, pods: Iterable[ObjectView]) -> list[ObjectView]:
        known = self.restriction.attempts
        easing = known.easing if update_mode(self.vpa) in IN_PLACE_MODES else ()
        found = candidates(pods, self.vpa, self.now, self.config, self.bounds, known.infeasible, easing)
        return [entry.pod for entry in found]

    def _resizable(self, pod: ObjectView) -> bool:
        decision = self.restriction.can_resize(pod, self.clock)
        if update_mode(self.vpa) == "InPlace":
            return decision is not Decision.INFEASIBLE_CACHED
        return decision is not Decision.DEFERRED

    def _unboost(self, pods: list[ObjectView]) -> Generator[Action, Result, list[ObjectView]]:
        """Reverts expired boosts. Boosted pods get no other update in this pass."""
        for pod in pods:
            if expired_boosts(pod, self.vpa, self.now) and self.restriction.can_unboost(pod):
                yield from self._resize(pod, "UnboostError")
        return [pod for pod in pods if not boosted_containers(pod)]

    def _resize_all(self, pods: list[ObjectView]) -> Generator[Action, Result, list[ObjectView]]:
        """Resizes pods as far as allowed; returns those that have to be evicted instead."""
        evict_instead = update_mode(self.vpa) != "InPlace"
        rest = []
        for pod in pods:
            decision = self.restriction.can_resize(pod, self.clock)
            if decision is Decision.EVICT:
                rest.append(pod)
                continue
            if decision is Decision.INFEASIBLE_CACHED or (decision is Decision.DEFERRED and evict_instead):
                continue
            if decision is Decision.INFEASIBLE:
                self.restriction.remember_infeasible(pod)
            worked = yield from self._resize(pod, "InPlaceUpdateError")
            if not worked and evict_instead and pod["metadata"].get("uid") not in self.restriction.attempts.easing:
                rest.append(pod)
        return rest

    def _resize(self, pod: ObjectView, reason: str) -> Generator[Action, Result, bool]:
        action = resize(pod, self.vpa, self.now, self.bounds)
        error: Result = NOTHING_TO_DO
        if action is not None:
            error = yield action
        if error is not None:
            self.report.failed.append((self.vpa, pod, reason, error))
            return False
        self.restriction.count_resize(pod)
        self.report.resized.append((self.vpa, pod))
        return True

    def _evict(self, pod: ObjectView) -> Generator[Action, Result, None]:
        if not self.restriction.can_evict(pod, self.clock):
            return
        error = yield Evict(pod, self.vpa)
        if error is not None:
            self.report.failed.append((self.vpa, pod, "EvictionError", error))
            return
        self.restriction.count_eviction(pod)
        self.report.evicted.append((self.vpa, pod))
