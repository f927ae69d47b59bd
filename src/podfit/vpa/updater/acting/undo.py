"""Undoes a harmful resize: a container was OOM-killed or throttled soon after a resource was lowered.

The previous amount is restored at once, and the resource is not lowered again for a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from podfit.api.objects import Object
from podfit.api.quantity import Quantity, QuantityError
from podfit.api.registry.kinds import POD_METRICS
from podfit.api.status import ApiError
from podfit.client import Client
from podfit.client.cache import Key, key_of
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock
from podfit.vpa.model.changing.jsonpatch import Patch, add
from podfit.vpa.model.objects.pods import containers, limits_of, requests_of
from podfit.vpa.model.objects.policy import CPU
from podfit.vpa.recommender.decide.evidence.oom import ooms_between
from podfit.vpa.updater.config import UpdaterConfig
from podfit.vpa.updater.decide.actions import Resize

log = logging.getLogger(__name__)

VpaId = tuple[str, str]
FEW = 16
"""The number of pods up to which metrics are read one by one; beyond it the whole list is read."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A resize that lowered resources of a pod, and the previous amounts."""

    pod: Key
    uid: str
    vpa: Mapping[str, Any]
    at: float
    before: Mapping[tuple[int, str, str], str]
    """(container number, kind, resource) → amount, of everything the resize changed in these resources."""
    resources: frozenset[str]
    names: tuple[str, ...]
    """The names of the pod's containers."""


@dataclass(slots=True)
class Undo:
    client: Client
    config: UpdaterConfig
    clock: Clock
    send: Callable[[Lowered, Patch, str], Any]
    """Sends the patch that undoes a resize; must be awaited."""
    _lowered: dict[Key, Lowered] = field(default_factory=dict)
    _floors: dict[VpaId, dict[tuple[str, str], tuple[float, int]]] = field(default_factory=dict)
    _due: asyncio.Queue[tuple[Lowered, str, str]] = field(default_factory=asyncio.Queue)

    # --- resizes

    def note(self, resize: Resize, vpa: Mapping[str, Any]) -> None:
        """Records a resize that was sent, if it lowered anything."""
        before: dict[tuple[int, str, str], str] = {}
        fell: set[str] = set()
        for (index, kind, resource), amount in resize.changes.items():
            name = containers(resize.pod)[index].get("name") or ""
            if resource == CPU and name in resize.unboosted:
                continue
            held = (requests_of if kind == "requests" else limits_of)(resize.pod, name).get(resource)
            if held is not None:
                before[index, kind, resource] = held.as_written()
                if amount < held:
                    fell.add(resource)
        key = key_of(dict(resize.pod))
        if not fell:
            self._lowered.pop(key, None)
            return
        kept = {entry: amount for entry, amount in before.items() if entry[2] in fell}
        uid = resize.pod["metadata"].get("uid", "")
        names = tuple(container.get("name") or "" for container in containers(resize.pod))
        self._lowered[key] = Lowered(key, uid, vpa, self.clock.monotonic(), kept, frozenset(fell), names)

    def floors(self, vpa: VpaId) -> dict[tuple[str, str], int]:
        now = self.clock.monotonic()
        return {key: amount for key, (until, amount) in self._floors.get(vpa, {}).items() if until > now}

    # --- consequences

    def on_pod(self, before: Object | None, after: Object | None) -> None:
        if after is None:
            if before is not None:
                self._lowered.pop(key_of(before), None)
            return
        lowered = self._lowered.get(key_of(after)) if self._lowered else None
        if lowered is None or before is None or "memory" not in lowered.resources or not self._recent(lowered):
            return
        ooms = ooms_between(before, after)
        if ooms:
            self._due.put_nowait((lowered, "memory", f"container {ooms[0].container} ran out of memory"))

    def _recent(self, lowered: Lowered) -> bool:
        return self.clock.monotonic() - lowered.at <= self.config.undo_within

    async def check_throttling(self, pod_of: Callable[[Key], Object | None]) -> None:
        """Finds pods that use all of their CPU after it was lowered. Called once a pass."""
        now = self.clock.monotonic()
        for key in [key for key, lowered in self._lowered.items() if not self._recent(lowered)]:
            del self._lowered[key]
        settled = {
            key: lowered
            for key, lowered in self._lowered.items()
            if "cpu" in lowered.resources and now - lowered.at >= self.config.undo_settle
        }
        if not settled:
            return
        used = await self._usage(list(settled))
        for key, lowered in settled.items():
            pod = pod_of(key)
            throttled = self._throttled(pod, used.get(key) or {}) if pod is not None else ""
            if throttled:
                self._due.put_nowait((lowered, "cpu", f"container {throttled} uses up its CPU limit"))

    async def _usage(self, keys: list[Key]) -> dict[Key, Object]:
        """PodMetrics by pod; those that cannot be read are omitted."""
        if len(keys) > FEW:
            try:
                items = (await self.client.list(POD_METRICS)).get("items") or []
            except (ApiError, Unreachable):
                return {}
            return {key_of(item): item for item in items}
        answers = await asyncio.gather(*(self.client.get(POD_METRICS, *key) for key in keys), return_exceptions=True)
        return {key: found for key, found in zip(keys, answers, strict=True) if not isinstance(found, BaseException)}

    def _throttled(self, pod: Object, metrics: Object) -> str:
        """The first container that uses as much CPU as its limit allows; empty if there is none."""
        for entry in metrics.get("containers") or ():
            limit = limits_of(pod, entry.get("name") or "").get("cpu")
            try:
                used = Quantity.parse((entry.get("usage") or {}).get("cpu") or "0")
            except QuantityError:
                continue
            if limit and used.nanos >= limit.nanos * self.config.undo_throttled_above:
                return str(entry["name"])
        return ""

    # --- undo

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            lowered, resource, why = await self._due.get()
            if self._lowered.get(lowered.pod) is not lowered:
                continue
            del self._lowered[lowered.pod]
            self._prevent_decrease(lowered, resource)
            patch = [
                add(f"/spec/containers/{index}/resources/{kind}/{name}", amount)
                for (index, kind, name), amount in lowered.before.items()
                if name == resource
            ]
            try:
                await self.send(lowered, patch, why)
            except (ApiError, Unreachable) as error:
                log.warning("undo of pod %s/%s: %s", *lowered.pod, error)

    def hold(self, vpa: Mapping[str, Any], container: str, resource: str, amount: int) -> None:
        """Keeps the autoscaler from lowering the requests of a resource below this amount for a while."""
        id = vpa["metadata"].get("namespace", ""), vpa["metadata"]["name"]
        until = self.clock.monotonic() + self.config.undo_hold
        self._floors.setdefault(id, {})[container, resource] = (until, amount)

    def _prevent_decrease(self, lowered: Lowered, resource: str) -> None:
        id = lowered.vpa["metadata"].get("namespace", ""), lowered.vpa["metadata"]["name"]
        until = self.clock.monotonic() + self.config.undo_hold
        for (index, kind, name), amount in lowered.before.items():
            if kind == "requests" and name == resource:
                quantity = Quantity.parse(amount)
                held = quantity.milli if resource == "cpu" else quantity.value
                self._floors.setdefault(id, {})[lowered.names[index], resource] = until, held
