"""Watches for pods that are being migrated to this node, and finds out what became of those that are not any more."""

from __future__ import annotations

import logging
from collections.abc import Callable

from podfit.agent.decide.states import Object
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.base import Runtime
from podfit.api.kinds import POD
from podfit.api.migrations import SUBRESOURCE, moving
from podfit.api.status import ApiError
from podfit.client.cache import Cache
from podfit.client.rest import Client
from podfit.client.transport import Unreachable
from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock
from podfit.kit.tasks import Tasks

log = logging.getLogger(__name__)


class Expected:
    def __init__(self, client: Client, runtime: Runtime, node_name: str, clock: Clock, tasks: Tasks) -> None:
        self._client, self._runtime, self._node_name, self._clock, self._tasks = (
            client,
            runtime,
            node_name,
            clock,
            tasks,
        )
        self._cache = Cache(client, POD, clock=clock, fieldSelector=f"status.nominatedNodeName={node_name}")
        self.coming: Callable[[Object | None, Object | None], None] = lambda before, after: None
        self.not_coming: Callable[[str], None] = lambda uid: None
        """Both set by the agent."""

    async def begin(self) -> None:
        """Only where the runtime can move VMs and the API server knows of that. Returns when all are known."""
        if getattr(self._runtime, "migrations", None) is None or not await self._served():
            return
        self._tasks.start(self._cache.run(), "coming")
        await self._cache.ready.wait()
        for pod in self._cache:
            self.coming(None, pod)
        self._cache.subscribe(self.coming)

    async def _served(self) -> bool:
        backoff = Backoff(0.5, 30.0)
        while True:
            try:
                found = await self._client.raw("GET", "/api/v1")
                return any(one.get("name") == f"pods/{SUBRESOURCE}" for one in found.get("resources") or ())
            except (ApiError, Unreachable) as error:
                log.info("%s: %s; trying again", self._node_name, error)
                await self._clock.sleep(backoff.next())

    def forgotten(self, uid: str) -> None:
        """A pod that left this node may be on its way back."""
        for pod in self._cache:
            if pod["metadata"]["uid"] == uid:
                self.coming(None, pod)

    def look_for(self, record: PodRecord) -> None:
        self._tasks.start(self._look_for(record), f"arrival-{record.uid}")

    async def _look_for(self, record: PodRecord) -> None:
        """A pod that has come is in the API as this node's; one that does not come is another node's, or gone."""
        backoff = Backoff(0.2, 10.0)
        while record.coming and (record.ending is None or not record.ending.gone):
            try:
                pod = await self._client.get(POD, record.namespace, record.name)
            except Unreachable:
                await self._clock.sleep(backoff.next())
                continue
            except ApiError as error:
                if error.code not in (403, 404):
                    await self._clock.sleep(backoff.next())
                    continue
                pod = {}
            if not self._is_ours(pod, record.uid):
                self.not_coming(record.uid)
            return

    def _is_ours(self, pod: Object, uid: str) -> bool:
        if (pod.get("metadata") or {}).get("uid") != uid:
            return False
        migration = moving(pod)
        coming = migration is not None and migration.target == self._node_name
        return coming or pod["spec"].get("nodeName") == self._node_name
