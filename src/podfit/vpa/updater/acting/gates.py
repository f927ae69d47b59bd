"""Releases pods that are held until an autoscaler controls them.

Admission adds a scheduling gate to a pod that requests it. This module removes the gate after it gave the pod the
recommended resources, or, without a recommendation, its own resources within the autoscaler's policy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.api.status import ApiError
from podfit.client import Cache, Client, EventRecorder
from podfit.client.cache import Key, key_of
from podfit.client.rest import JSON_PATCH
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock
from podfit.vpa.model.changing.gate import GATE, REQUIRES
from podfit.vpa.model.fitting.limitranges import NamespaceBounds, merged
from podfit.vpa.model.fitting.own_size import at_own_size
from podfit.vpa.model.objects.matching import Target, acts_on_creation, by_target, controlling_vpa
from podfit.vpa.model.objects.pods import controller_of
from podfit.vpa.model.objects.policy import recommends_for
from podfit.vpa.observe.change_stops import ChangeStops
from podfit.vpa.observe.headroom import Headroom
from podfit.vpa.observe.targets import Targets
from podfit.vpa.updater.decide.actions import resize

log = logging.getLogger(__name__)


class Gates:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        limit_ranges: Cache,
        vpas_in: Callable[[Collection[str]], Iterable[Mapping[str, Any]]],
        targets: Targets,
        stops: ChangeStops,
        headroom: Headroom,
        events: EventRecorder,
    ) -> None:
        """`vpas_in` returns the autoscalers in a set of namespaces."""
        self._client, self._clock, self._targets, self._stops = client, clock, targets, stops
        self._limit_ranges, self._vpas_in = limit_ranges, vpas_in
        self._headroom, self._events = headroom, events
        self._held: dict[Key, Object] = {}
        self._reported: dict[str, str] = {}
        """The reason in each pod's last Event, by UID."""
        self._opened: set[str] = set()
        """UIDs of released pods, until the watch delivers them without the gate."""
        self._due = asyncio.Event()
        self._one = asyncio.Lock()

    def start(self, waiting: Cache, causes: Iterable[Cache]) -> None:
        """Subscribes to the caches, which must be synced. `waiting` has the pods without a node. A change of an object
        in `causes` may release the held pods in its namespace, and the end of a freeze may release any."""
        waiting.subscribe(self._on_pod)
        for cache in causes:
            cache.subscribe(self._on_cause)
        for cache in self._stops.caches:
            cache.subscribe(lambda before, after: self._due.set())

    async def run(self) -> None:
        """Releases pods as soon as nothing is missing. Runs until cancelled."""
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                await self.open()
            except Exception:
                log.exception("opening scheduling gates")

    def _on_pod(self, before: Object | None, after: Object | None) -> None:
        pod = after if after is not None else before
        assert pod is not None
        key, uid = key_of(pod), pod["metadata"].get("uid", "")
        gates = (pod.get("spec") or {}).get("schedulingGates") or ()
        held = any(gate.get("name") == GATE for gate in gates)
        if after is None or not held or pod["metadata"].get("deletionTimestamp"):
            self._held.pop(key, None)
            self._reported.pop(uid, None)
            self._opened.discard(uid)
        elif uid not in self._opened:
            self._held[key] = after
            self._due.set()

    def _on_cause(self, before: Object | None, after: Object | None) -> None:
        if not self._held or (before is not None and after is not None and _unchanged(before, after)):
            return
        namespace = key_of(after or before or {})[0]
        if any(held == namespace for held, _ in self._held):
            self._due.set()

    async def open(self) -> int:
        """Releases pods; returns how many. While changes are frozen none is released, because it would start with the
        wrong size."""
        async with self._one:
            held = list(self._held.items())
            index = by_target(self._vpas_in({namespace for (namespace, _), _ in held})) if held else {}
            return sum([await self._open_if_sized(key, pod, index) for key, pod in held])

    async def _open_if_sized(self, key: Key, pod: Object, index: Mapping[Target, list[Any]]) -> bool:
        vpa = controlling_vpa(pod, index, self._targets.selector_of, self._targets.topmost_of)
        missing, uid = self._missing(pod, vpa), pod["metadata"].get("uid", "")
        if vpa is not None and not missing:
            if await self._open(pod, vpa, self._clock.now(), merged(self._limit_ranges, key[0])):
                self._opened.add(uid)
                self._held.pop(key, None)
                return True
            return False
        if self._reported.get(uid) != missing:
            self._reported[uid] = missing
            about = {"kind": POD.kind, "apiVersion": "v1", "metadata": pod["metadata"]}
            self._events.record(about, "Warning", "WaitingForVPA", missing)
        return False

    def _missing(self, pod: Object, vpa: Any) -> str:
        """The reason why the pod must wait; empty if it need not."""
        start = f"The pod is not scheduled, because of its annotation {REQUIRES}: "
        if vpa is not None:
            frozen = self._stops.frozen(vpa)
            return f"{start}{frozen.message}." if frozen is not None else ""
        namespace, owner = key_of(pod)[0], controller_of(pod)
        top = self._targets.topmost_of(namespace, owner) if owner is not None else None
        if top is not None:
            return f"{start}no VerticalPodAutoscaler in namespace {namespace} has {top.kind} {top.name} as its target."
        who = (
            f"{owner.get('kind')} {owner.get('name')}, its owner"
            if owner is not None
            else "the pod, which has no owner"
        )
        return f"{start}no VerticalPodAutoscaler in namespace {namespace} controls {who}."

    async def _open(self, pod: Object, vpa: Any, now: float, bounds: NamespaceBounds) -> bool:
        namespace, name = key_of(pod)
        if not recommends_for(vpa, pod):
            vpa = at_own_size(vpa, pod)
        vpa = self._headroom.size_new(vpa, pod, bounds).vpa
        # An autoscaler that only recommends releases the pod unchanged.
        wanted = resize(pod, vpa, now, bounds) if acts_on_creation(vpa) else None
        if wanted is not None:
            try:
                await self._client.patch(POD, namespace, name, wanted.patch, "resize", JSON_PATCH)
            except (ApiError, Unreachable) as error:
                # The pod starts with its own requests, and is resized when it runs.
                log.info("resize of held pod %s/%s: %s", namespace, name, error)
        gates = [gate for gate in pod["spec"]["schedulingGates"] if gate.get("name") != GATE]
        try:
            patch = [{"op": "replace", "path": "/spec/schedulingGates", "value": gates}]
            await self._client.patch(POD, namespace, name, patch, content_type=JSON_PATCH)
        except (ApiError, Unreachable) as error:
            log.warning("scheduling gate of pod %s/%s: %s", namespace, name, error)
            return False
        return True


def _unchanged(before: Object, after: Object) -> bool:
    """Whether nothing changed that decides which autoscaler controls a pod, or whether that may act."""
    meta, other = before["metadata"], after["metadata"]
    return before.get("spec") == after.get("spec") and all(
        meta.get(name) == other.get(name) for name in ("annotations", "ownerReferences")
    )
