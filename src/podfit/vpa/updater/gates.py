"""Lets go of pods that were held back until an autoscaler has a recommendation for them.

Admission puts a scheduling gate on a pod that asks for it; here the gate is taken away, after the recommended resources
were put into the pod.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from podfit.api.kinds import POD
from podfit.api.status import ApiError, Object
from podfit.client import Cache, Client
from podfit.client.cache import key_of
from podfit.client.rest import JSON_PATCH
from podfit.client.transport import Unreachable
from podfit.vpa.model.gate import GATE
from podfit.vpa.model.limitranges import NamespaceBounds, merged
from podfit.vpa.model.matching import Target, acts_on_creation, controlling_vpa
from podfit.vpa.model.policy import container_recommendations
from podfit.vpa.observe.brakes import Brakes
from podfit.vpa.observe.targets import Targets
from podfit.vpa.updater.decide.actions import resize

log = logging.getLogger(__name__)


class Gates:
    def __init__(self, client: Client, pods: Cache, targets: Targets, brakes: Brakes) -> None:
        """`pods` are those without a node; of those that no gate holds back it is enough to know that they are."""
        self._client, self._pods, self._targets, self._brakes = client, pods, targets, brakes

    async def open(self, index: Mapping[Target, list[Any]], now: float, limit_ranges: Iterable[Object] = ()) -> int:
        """Answers how many pods were let go. While changes are frozen none is: it would start unsized."""
        count = 0
        for pod in self._pods:
            held = any(gate.get("name") == GATE for gate in (pod.get("spec") or {}).get("schedulingGates") or ())
            if not held or pod["metadata"].get("deletionTimestamp"):
                continue
            vpa = controlling_vpa(pod, index, self._targets.selector_of, self._targets.topmost_of)
            ready = vpa is not None and container_recommendations(vpa)
            if vpa is not None and ready and self._brakes.holding(vpa) is None:
                count += await self._open(pod, vpa, now, merged(limit_ranges, key_of(pod)[0]))
        return count

    async def _open(self, pod: Object, vpa: Any, now: float, bounds: NamespaceBounds) -> bool:
        namespace, name = key_of(pod)
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
