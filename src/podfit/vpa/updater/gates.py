"""Lets go of pods that were held back until an autoscaler controls them.

Admission puts a scheduling gate on a pod that asks for it. Here the gate is removed, after the pod got the recommended
resources, or its own within the autoscaler's policy if nothing is recommended yet.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from podfit.api.kinds import POD
from podfit.api.status import ApiError, Object
from podfit.client import Cache, Client, EventRecorder
from podfit.client.cache import key_of
from podfit.client.rest import JSON_PATCH
from podfit.client.transport import Unreachable
from podfit.vpa.model.gate import GATE, REQUIRES
from podfit.vpa.model.limitranges import NamespaceBounds, merged
from podfit.vpa.model.matching import Target, acts_on_creation, controlling_vpa
from podfit.vpa.model.own_size import at_own_size
from podfit.vpa.model.pods import controller_of
from podfit.vpa.model.policy import recommends_for
from podfit.vpa.observe.brakes import Brakes
from podfit.vpa.observe.headroom import Headroom
from podfit.vpa.observe.targets import Targets
from podfit.vpa.updater.decide.actions import resize

log = logging.getLogger(__name__)


class Gates:
    def __init__(
        self,
        client: Client,
        pods: Cache,
        targets: Targets,
        brakes: Brakes,
        headroom: Headroom,
        events: EventRecorder,
    ) -> None:
        """`pods` are those without a node."""
        self._client, self._pods, self._targets, self._brakes = client, pods, targets, brakes
        self._headroom, self._events = headroom, events
        self._reported: dict[str, str] = {}
        """By pod UID: what the Event on it said is missing."""

    async def open(self, index: Mapping[Target, list[Any]], now: float, limit_ranges: Iterable[Object] = ()) -> int:
        """Answers how many pods were let go. While changes are frozen none is: it would start unsized."""
        count = 0
        reported, self._reported = self._reported, {}
        for pod in self._pods:
            held = any(gate.get("name") == GATE for gate in (pod.get("spec") or {}).get("schedulingGates") or ())
            if not held or pod["metadata"].get("deletionTimestamp"):
                continue
            vpa = controlling_vpa(pod, index, self._targets.selector_of, self._targets.topmost_of)
            missing = self._missing(pod, vpa)
            if vpa is not None and not missing:
                count += await self._open(pod, vpa, now, merged(limit_ranges, key_of(pod)[0]))
                continue
            uid = pod["metadata"].get("uid", "")
            self._reported[uid] = missing
            if reported.get(uid) != missing:
                about = {"kind": POD.kind, "apiVersion": "v1", "metadata": pod["metadata"]}
                self._events.record(about, "Warning", "WaitingForVPA", missing)
        return count

    def _missing(self, pod: Object, vpa: Any) -> str:
        """Why the pod must wait, for people; empty when it need not."""
        start = f"The pod is not scheduled, because of its annotation {REQUIRES}: "
        if vpa is not None:
            frozen = self._brakes.frozen(vpa)
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
        # An autoscaler that only recommends lets the pod go as it is.
        wanted = resize(pod, vpa, now, bounds) if acts_on_creation(vpa) else None
        if wanted is not None:
            try:
                await self._client.patch(POD, namespace, name, wanted.patch, "resize", JSON_PATCH)
            except (ApiError, Unreachable) as error:
                # It starts with what it asked for and is resized when it runs.
                log.info("resize of held pod %s/%s: %s", namespace, name, error)
        gates = [gate for gate in pod["spec"]["schedulingGates"] if gate.get("name") != GATE]
        try:
            patch = [{"op": "replace", "path": "/spec/schedulingGates", "value": gates}]
            await self._client.patch(POD, namespace, name, patch, content_type=JSON_PATCH)
        except (ApiError, Unreachable) as error:
            log.warning("scheduling gate of pod %s/%s: %s", namespace, name, error)
            return False
        return True
