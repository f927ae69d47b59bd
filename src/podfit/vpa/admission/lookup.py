"""What an answer to the API server rests on: the autoscalers by target, kept ready, and the freshest recommendation.

Fallback, as the autoscaler's design has it: the recommender's own answer; else what stands in the autoscaler; else the
pod goes through unchanged. Whatever is slow or away never holds up a pod.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp

from podfit.api.status import ApiError, Object
from podfit.client import Cache, Client
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock
from podfit.vpa.admission.decide.review import index_vpas
from podfit.vpa.model.horizontal import LabelsOf, horizontal_resources, scaled_horizontally, without
from podfit.vpa.model.matching import Target
from podfit.vpa.model.pods import controller_of
from podfit.vpa.model.policy import recommending
from podfit.vpa.observe.sight import WELL_KNOWN, Sight
from podfit.vpa.observe.targets import Targets

log = logging.getLogger(__name__)

Ask = Callable[[Object, Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]
"""A pod and its autoscaler in, what this autoscaler recommends out; None when there is nothing. May raise or be slow:
it is not waited for long."""
PAUSE_S = 10.0
"""How long a recommender that failed is not asked."""
_OWNERS = 3


class Index:
    """Autoscalers by target, built again only after one of them changed."""

    def __init__(self, sight: Sight, hpas: Cache, labels_of: LabelsOf) -> None:
        self._sight, self._hpas, self._labels_of = sight, hpas, labels_of
        self._stale = True
        self._built: dict[Target, list[Any]] = {}
        self._namespaces: frozenset[str] = frozenset()
        self._scaled: Mapping[Target, Mapping[str, str]] = {}

    def start(self) -> None:
        self._sight.vpas.subscribe(self._changed)
        self._hpas.subscribe(self._changed)

    def _changed(self, before: Object | None, after: Object | None) -> None:
        self._stale = True

    @property
    def vpas(self) -> Mapping[Target, list[Any]]:
        if self._stale:
            self._scaled = scaled_horizontally(self._hpas)
            self._built = index_vpas(self.vertical(vpa) for vpa in self._sight.watched_vpas())
            self._namespaces = frozenset(target.namespace for target in self._built)
            self._stale = False
        return self._built

    def vertical(self, vpa: Mapping[str, Any]) -> Mapping[str, Any]:
        """Without what is recommended for resources that a horizontal autoscaler scales by."""
        return without(vpa, horizontal_resources(vpa, self._scaled, self._labels_of))

    @property
    def namespaces(self) -> frozenset[str]:
        """Where there are any: pods elsewhere need not be looked at."""
        return self._namespaces if self.vpas else frozenset()


class Owners:
    """Fetches owners of a new pod that the caches do not have yet: a ReplicaSet is seconds old when its pods come."""

    def __init__(self, client: Client, sight: Sight, targets: Targets) -> None:
        self._client, self._sight, self._targets = client, sight, targets

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


class Freshest:
    """Asks the recommender, within a time that no pod will notice."""

    def __init__(self, ask: Ask | None, timeout_s: float, clock: Clock) -> None:
        self._ask, self._timeout_s, self._clock = ask, timeout_s, clock
        self._paused_until = float("-inf")

    async def improve(self, pod: Object, vpa: Mapping[str, Any]) -> Mapping[str, Any]:
        """The autoscaler with the recommender's own answer in it; that may be that there is no recommendation."""
        if self._ask is None or self._clock.monotonic() < self._paused_until:
            return vpa
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._ask(pod, vpa)
        except Exception as error:
            # Whatever a recommender does wrong, the pod starts with what is known otherwise.
            log.info("the recommender was not asked for pod: %s", error)
            self._paused_until = self._clock.monotonic() + PAUSE_S
            return vpa
        return recommending(vpa, answer) if isinstance(answer, Mapping) else vpa


class HttpAsk:
    """`POST /recommendationQuery` of a recommender elsewhere."""

    def __init__(self, url: str) -> None:
        self._url = f"{url.rstrip('/')}/recommendationQuery"
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, pod: Object, vpa: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        async with self._session.post(self._url, json={"spec": {"pod": pod}}) as answer:
            answer.raise_for_status()
            status = (await answer.json()).get("status") or {}
            # It knows autoscalers that do not act on new pods too, and might speak of another one.
            ours = status.get("verticalPodAutoscaler") == vpa["metadata"]["name"]
            return status.get("recommendation") if ours else None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
