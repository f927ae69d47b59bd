"""Queries the recommender for its current recommendation, which may be newer than the one in the autoscaler's status.

Admission uses it for new pods, and the updater for running ones. If the recommender fails, the recommendation in the
status is used. A slow or unreachable recommender never delays a pod.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp

from podfit.api.objects import Object
from podfit.client import Client
from podfit.kit.clock import Clock
from podfit.vpa.model.objects.policy import container_recommendations, recommending

log = logging.getLogger(__name__)

Ask = Callable[[Object, Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]
"""From a pod and its autoscaler to the autoscaler's recommendation; None if there is none. May raise or be slow: it has
a short timeout."""
PAUSE_S = 10.0
"""How long a recommender is not queried after it failed."""
AGGREGATED = "aggregated"
"""The value of --recommender-url for queries through the API server, as recommendation.podfit.dev."""
QUERY_VERSION = "recommendation.podfit.dev/v1"


class LiveRecommendations:
    """Queries the recommender, with a timeout too short to delay a pod noticeably."""

    def __init__(self, ask: Ask | None, timeout_s: float, clock: Clock) -> None:
        self._ask, self._timeout_s, self._clock = ask, timeout_s, clock
        self._paused_until = float("-inf")

    async def improve(self, pod: Object, vpa: Mapping[str, Any]) -> Mapping[str, Any]:
        """The autoscaler with the recommender's current recommendation, or with none if the recommender has none."""
        if self._ask is None or self._clock.monotonic() < self._paused_until:
            return vpa
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._ask(pod, vpa)
        except Exception as error:
            # Whatever error the recommender causes, the pod gets the recommendation in the status.
            words = f"no answer within {self._timeout_s:g} s" if isinstance(error, TimeoutError) else error
            log.info("query to the recommender about a pod: %s; retrying in %g s", words, PAUSE_S)
            self._paused_until = self._clock.monotonic() + PAUSE_S
            return vpa
        return recommending(vpa, answer) if isinstance(answer, Mapping) else vpa


class ApiQuery:
    """Queries with a RecommendationQuery through the API server, with this component's own credentials."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, pod: Object, vpa: Mapping[str, Any]) -> Mapping[str, Any] | None:
        namespace = vpa["metadata"].get("namespace") or "default"
        query = {"apiVersion": QUERY_VERSION, "kind": "RecommendationQuery", "spec": {"pod": pod}}
        path = f"/apis/{QUERY_VERSION}/namespaces/{namespace}/recommendationqueries"
        return _ours(await self._client.raw("POST", path, body=query), vpa)

    async def close(self) -> None:
        return


class HttpQuery:
    """Queries with `POST /recommendationQuery` at a recommender's own address."""

    def __init__(self, url: str) -> None:
        self._url = f"{url.rstrip('/')}/recommendationQuery"
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, pod: Object, vpa: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        async with self._session.post(self._url, json={"spec": {"pod": pod}}) as answer:
            answer.raise_for_status()
            return _ours(await answer.json(), vpa)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def keeping_others(vpa: Mapping[str, Any], fresh: Mapping[str, Any]) -> Mapping[str, Any]:
    """A new recommendation for one pod's containers, merged with the autoscaler's recommendation for containers of
    other pods."""
    answered = container_recommendations(fresh)
    names = {entry.get("containerName") for entry in answered}
    others = [entry for entry in container_recommendations(vpa) if entry.get("containerName") not in names]
    return recommending(fresh, {"containerRecommendations": [*answered, *others]}) if answered and others else fresh


def query_by(url: str, client: Client) -> ApiQuery | HttpQuery | None:
    """The client for --recommender-url; None if it is empty."""
    if not url:
        return None
    return ApiQuery(client) if url == AGGREGATED else HttpQuery(url)


def _ours(answer: Any, vpa: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The recommendation in a response; None if it is for another autoscaler, as the recommender also knows those that
    do not act on new pods."""
    status = answer.get("status") or {}
    ours = status.get("verticalPodAutoscaler") == vpa["metadata"]["name"]
    return status.get("recommendation") if ours else None
