"""Sizes new pods so that they find a place: no more than nodes and quotas have, no less than the lower bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from podfit.api.kinds import NODE, POD, kind_named
from podfit.api.status import Object
from podfit.client.cache import key_of
from podfit.kit.clock import Clock
from podfit.vpa.model.boost import has_boost
from podfit.vpa.model.limitranges import NamespaceBounds
from podfit.vpa.model.policy import recommends_for, update_mode
from podfit.vpa.model.room import Claim, amounts_of
from podfit.vpa.observe import trims
from podfit.vpa.observe.headroom import SCHEDULED, UNSCHEDULED, Headroom, claim_of, controller_key, wants_place
from podfit.vpa.observe.quotas import counted_by_quota
from podfit.vpa.observe.sight import Sight

UNSEEN_S = 5.0
"""So long a pod that was admitted may take to come by the watch; one that was refused after all never comes."""


class Size(NamedTuple):
    vpa: Mapping[str, Any] | None
    """The autoscaler with the targets that the pod gets; None when the pod keeps what it asks for."""
    notes: tuple[str, ...] = ()
    """What it gets less, and why."""


class Fitting:
    def __init__(self, sight: Sight, clock: Clock) -> None:
        self._clock = clock
        self._waiting = sight.follow(POD, trims.pod, {}, fieldSelector=UNSCHEDULED)
        nodes, quotas = sight.follow(NODE, indexes={}), sight.follow(kind_named("ResourceQuota"))
        self.headroom = Headroom(nodes, sight.follow_pods(SCHEDULED), quotas)
        self._admitted: deque[tuple[float, tuple[str, str, str], object]] = deque()
        """When, for which controller, and the key of the claim: pods that the watch has not brought yet."""

    def start(self) -> None:
        """Call when the caches have their first picture."""
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

    def size(self, vpa: Mapping[str, Any], pod: Object, bounds: NamespaceBounds, boosting: bool) -> Size:
        """What the pod gets. One that is boosted while it starts is left alone: its size is for a short time."""
        spec = pod.get("spec") or {}
        sized = update_mode(vpa) != "Off" and recommends_for(vpa, pod) and not (boosting and has_boost(vpa))
        if not sized or spec.get("nodeName") or spec.get("schedulingGates"):
            return Size(vpa)
        self._forget_old()
        quotas = self.headroom.quotas
        quotas.begin()
        found = self.headroom.size_new(vpa, pod, bounds)
        made, result = found.pod, Size(found.vpa, found.notes)
        if not found.fits:
            namespace = pod["metadata"].get("namespace", "")
            over = quotas.missing(namespace, counted_by_quota(found.pod))
            if over and not quotas.missing(namespace, counted_by_quota(pod)):
                # At the recommended size it would be refused; its controller would stay a pod short.
                made, result = pod, Size(None, (f"the pod keeps what it asks for: {over} for what is recommended",))
        key = object()
        self.headroom.ledger.add(key, Claim(spec, amounts_of(made)))
        self._admitted.append((self._clock.monotonic(), controller_key(pod), key))
        return result
