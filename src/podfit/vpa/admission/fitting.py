"""Sizes new pods so that they can be scheduled: at most the free capacity of nodes and quotas, at least the lower
bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import NODE, POD, kind_named
from podfit.client.cache import key_of
from podfit.kit.clock import Clock
from podfit.vpa.admission.decide.boosts import PARTS, boosted, shared
from podfit.vpa.admission.decide.patches import NO_BOOSTS, Wanted
from podfit.vpa.model.fitting.container_resources import resources_for_pod
from podfit.vpa.model.fitting.limitranges import NO_BOUNDS, NamespaceBounds
from podfit.vpa.model.fitting.squeeze import sized
from podfit.vpa.model.objects.policy import recommendation, recommends_for, update_mode
from podfit.vpa.model.room import Claim, amounts_of, constraints
from podfit.vpa.observe import trims
from podfit.vpa.observe.caches import Caches
from podfit.vpa.observe.headroom import SCHEDULED, UNSCHEDULED, Headroom, claim_of, controller_key, wants_place
from podfit.vpa.observe.quotas import counted_by_quota

_REMEMBER = 4096
UNSEEN_S = 5.0
"""How long an admitted pod may take to appear in the watch; one that was rejected later never appears."""


class Size(NamedTuple):
    vpa: Mapping[str, Any] | None
    """The autoscaler with the targets for the pod; None if the pod keeps its own requests."""
    notes: tuple[str, ...] = ()
    """The reductions, and their reasons."""
    boosts: Mapping[str, Quantity] = NO_BOOSTS
    """The CPU that each container starts with, if its full startup boost does not fit."""
    wanted: Wanted | None = None
    """The recommendation for its containers, if it was computed. Must not be modified."""


class Boosting(NamedTuple):
    """Whether startup boosts are enabled, and the autoscaler has one."""

    most: Quantity | None
    """The maximum of a boost."""


class Fitting:
    def __init__(self, caches: Caches, clock: Clock) -> None:
        self._clock = clock
        self._waiting = caches.follow(POD, trims.pod, {}, fieldSelector=UNSCHEDULED)
        nodes, quotas = caches.follow(NODE, indexes={}), caches.follow(kind_named("ResourceQuota"))
        self.headroom = Headroom(nodes, caches.follow_pods(SCHEDULED), quotas)
        self._admitted: deque[tuple[float, tuple[str, str, str], object]] = deque()
        """Time, controller and claim key of pods that have not appeared in the watch yet."""
        self._targets: dict[tuple[int, int, bytes], tuple[Any, Any, Mapping[str, int], Wanted]] = {}
        """Cached requests at the target, with the autoscaler's objects that they were computed from."""

    def start(self) -> None:
        """Subscribes to the caches; they must be synced."""
        self.headroom.start()
        self._waiting.subscribe(self._on_waiting)

    def _on_waiting(self, before: Object | None, after: Object | None) -> None:
        ledger = self.headroom.ledger
        if after is None or not wants_place(after):
            if before is not None:
                ledger.remove(key_of(before))
            return
        if before is None:
            self._forget_first(controller_key(after))
        ledger.add(key_of(after), claim_of(after))

    def _forget_first(self, controller: tuple[str, str, str]) -> None:
        for entry in self._admitted:
            if entry[1] == controller:
                self.headroom.ledger.remove(entry[2])
                self._admitted.remove(entry)
                return

    def _forget_old(self) -> None:
        while self._admitted and self._admitted[0][0] < self._clock.monotonic() - UNSEEN_S:
            self.headroom.ledger.remove(self._admitted.popleft()[2])

    def size(
        self, vpa: Mapping[str, Any], pod: Object, bounds: NamespaceBounds, boosting: Boosting | None = None
    ) -> Size:
        """The size of the pod. A startup boost uses the capacity left beyond the recommended size."""
        spec = pod.get("spec") or {}
        acts = update_mode(vpa) != "Off" and recommends_for(vpa, pod)
        if spec.get("nodeName") or spec.get("schedulingGates") or not (acts or boosting):
            return Size(vpa)
        self._forget_old()
        self.headroom.quotas.begin()
        if boosting is None and bounds is NO_BOUNDS and not self.headroom.quotas.left(pod["metadata"]["namespace"]):
            needed, wanted = self._at_target(vpa, pod)
            target = Claim(spec, needed)
            # Almost all pods fit; for them nothing else needs to be computed.
            if self.headroom.ledger.has_place(target):
                self._expect(pod, target)
                return Size(vpa, wanted=wanted)
        result, made = self._recommended(vpa, pod, bounds) if acts else (Size(vpa), pod)
        if boosting is not None and result.vpa is not None:
            boosts, notes, made = self._boosted(result.vpa, pod, bounds, boosting)
            result = Size(result.vpa, (*result.notes, *notes), boosts)
        self._expect(pod, Claim(spec, amounts_of(made)))
        return result

    def _recommended(
        self, vpa: Mapping[str, Any], pod: Object, bounds: NamespaceBounds
    ) -> tuple[Size, Mapping[str, Any]]:
        """Sizes the pod without its startup boost."""
        found = self.headroom.size_new(vpa, pod, bounds)
        if not found.fits:
            namespace, quotas = pod["metadata"].get("namespace", ""), self.headroom.quotas
            over = quotas.missing(namespace, counted_by_quota(found.pod))
            if over and not quotas.missing(namespace, counted_by_quota(pod)):
                # The quota would reject the pod at the recommended size, and its controller would lack a pod.
                return Size(None, (f"the pod keeps its own requests: {over} for what is recommended",)), pod
        return Size(found.vpa, found.notes), found.pod

    def _boosted(
        self, vpa: Mapping[str, Any], pod: Object, bounds: NamespaceBounds, boosting: Boosting
    ) -> tuple[Mapping[str, Quantity], tuple[str, ...], Mapping[str, Any]]:
        """Reduces the startup boost until the pod fits. Returns the boosted containers' CPU if the full boost does not
        fit, notes, and the pod of the resulting size."""
        whole, boosts_wanted = boosted(vpa, pod, bounds, boosting.most)
        if self.headroom.has_room(pod, whole):
            return {}, (), whole
        low, high = 0, PARTS
        boosts = shared(boosts_wanted, low)
        while high - low > 1:
            middle = (low + high) // 2
            tried = shared(boosts_wanted, middle)
            if self.headroom.has_room(pod, boosted(vpa, pod, bounds, boosting.most, tried)[0]):
                low, boosts = middle, tried
            else:
                high = middle
        notes = tuple(
            f"container {name}: startup boost to {boosts[name]} of cpu instead of {cpu}, "
            "which no node or quota has left"
            for name, (_, cpu) in boosts_wanted.items()
        )
        return boosts, notes, boosted(vpa, pod, bounds, boosting.most, boosts)[0]

    def _expect(self, pod: Object, claim: Claim) -> None:
        key = object()
        self.headroom.ledger.add(key, Claim(constraints(claim.spec), claim.needed))
        self._admitted.append((self._clock.monotonic(), controller_key(pod), key))

    def _at_target(self, vpa: Mapping[str, Any], pod: Object) -> tuple[Mapping[str, int], Wanted]:
        """The requests of the pod, and of its containers, at the target. They are equal for all pods of one template
        while the recommendation does not change."""
        policy, recommended = vpa.get("spec"), recommendation(vpa)
        shape = id(policy), id(recommended), _shape(pod)
        known = self._targets.get(shape)
        if known is None or known[0] is not policy or known[1] is not recommended:
            if len(self._targets) >= _REMEMBER:
                self._targets.clear()
            wanted = resources_for_pod(vpa, pod)
            known = self._targets[shape] = policy, recommended, amounts_of(sized(pod, wanted[0])), wanted
        return known[2], known[3]


def _shape(pod: Object) -> bytes:
    """A cache key of everything that a pod's own size depends on."""
    spec = pod.get("spec") or {}
    parts = [
        [container.get("name"), container.get("resources"), container.get("restartPolicy")]
        for container in spec.get("containers") or ()
    ]
    first = [
        [container.get("resources"), container.get("restartPolicy")] for container in spec.get("initContainers") or ()
    ]
    return msgspec.json.encode((parts, first, spec.get("overhead"), spec.get("resources")))
