"""Lookups for responses to the API server: autoscalers by target, indexed, and owners of new pods."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from podfit.api.objects import Object
from podfit.api.status import ApiError
from podfit.client import Cache, Client
from podfit.client.transport import Unreachable
from podfit.vpa.admission.decide.review import index_vpas
from podfit.vpa.model.changing.horizontal import LabelsOf, horizontal_resources, scaled_horizontally, without
from podfit.vpa.model.objects.matching import Target
from podfit.vpa.model.objects.pods import controller_of
from podfit.vpa.observe.caches import WELL_KNOWN, Caches
from podfit.vpa.observe.targets import Targets

log = logging.getLogger(__name__)

_OWNERS = 3


class Index:
    """An index of autoscalers by target, rebuilt only after one of them changed."""

    def __init__(self, caches: Caches, hpas: Cache, labels_of: LabelsOf) -> None:
        self._caches, self._hpas, self._labels_of = caches, hpas, labels_of
        self._stale = True
        self._built: dict[Target, list[Any]] = {}
        self._namespaces: frozenset[str] = frozenset()
        self._scaled: Mapping[Target, Mapping[str, str]] = {}

    def start(self) -> None:
        self._caches.vpas.subscribe(self._changed)
        self._hpas.subscribe(self._changed)

    def _changed(self, before: Object | None, after: Object | None) -> None:
        self._stale = True

    @property
    def vpas(self) -> Mapping[Target, list[Any]]:
        if self._stale:
            self._scaled = scaled_horizontally(self._hpas)
            self._built = index_vpas(self.vertical(vpa) for vpa in self._caches.watched_vpas())
            self._namespaces = frozenset(target.namespace for target in self._built)
            self._stale = False
        return self._built

    def vertical(self, vpa: Mapping[str, Any]) -> Mapping[str, Any]:
        """The autoscaler without recommendations for resources that a horizontal autoscaler scales by."""
        return without(vpa, horizontal_resources(vpa, self._scaled, self._labels_of))

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces with autoscalers. Pods in other namespaces are admitted without a lookup."""
        return self._namespaces if self.vpas else frozenset()


class Owners:
    """Fetches owners of a new pod that are not in the caches yet. A ReplicaSet is only seconds old when its pods
    are created."""

    def __init__(self, client: Client, caches: Caches, targets: Targets) -> None:
        self._client, self._caches, self._targets = client, caches, targets

    async def learn(self, pod: Mapping[str, Any], namespace: str) -> None:
        owner = controller_of(pod)
        for _ in range(_OWNERS):
            if owner is None or owner.get("kind") not in WELL_KNOWN:
                return
            kind, name = WELL_KNOWN[owner["kind"]], owner.get("name") or ""
            found = self._targets.workload(owner["kind"], namespace, name)
            if found is None:
                try:
                    async with asyncio.timeout(1.0):
                        found = await self._client.find(kind, namespace, name)
                except (ApiError, Unreachable, TimeoutError) as error:
                    log.info("owner %s %s/%s: %s", owner["kind"], namespace, name, error)
                    return
                if found is None:
                    return
                self._targets.learn(owner["kind"], found)
            owner = controller_of(found)
