"""Watches for pods that are being migrated to this node, and resolves those that no longer are."""

from __future__ import annotations

import logging

from podfit.agent.core import Core
from podfit.agent.pods.record import PodRecord
from podfit.agent.roster.roster import Roster
from podfit.agent.runtimes.base import Runtime
from podfit.api.objects import Object
from podfit.api.pods.migrations import SUBRESOURCE, moving
from podfit.api.registry.kinds import POD
from podfit.api.status import ApiError
from podfit.client.cache import Cache
from podfit.client.rest import Client
from podfit.client.transport import Unreachable
from podfit.kit.backoff import Backoff

log = logging.getLogger(__name__)


class Expected:
    def __init__(self, core: Core, client: Client, runtime: Runtime, roster: Roster) -> None:
        """`runtime`: the runtime that may be able to migrate VMs, without the wrapper that counts calls."""
        self._client, self._runtime, self._roster = client, runtime, roster
        self._clock, self._tasks = core.clock, core.tasks
        self._node_name = node_name = core.config.node_name
        clock = self._clock
        self._cache = Cache(client, POD, clock=clock, fieldSelector=f"status.nominatedNodeName={node_name}")

    async def begin(self) -> None:
        """Begins to watch, only if the runtime can migrate VMs and the API server supports it. Returns when all such
        pods are known."""
        if getattr(self._runtime, "migrations", None) is None or not await self._served():
            return
        self._tasks.start(self._cache.run(), "coming")
        await self._cache.ready.wait()
        for pod in self._cache:
            self._changed(None, pod)
        self._cache.subscribe(self._changed)

    def _changed(self, before: Object | None, after: Object | None) -> None:
        record = self._roster.expect(before, after)
        if record is not None:
            self._tasks.start(self._locate(record), f"arrival-{record.uid}")

    async def _served(self) -> bool:
        backoff = Backoff(0.5, 30.0)
        while True:
            try:
                found = await self._client.raw("GET", "/api/v1")
                return any(item.get("name") == f"pods/{SUBRESOURCE}" for item in found.get("resources") or ())
            except (ApiError, Unreachable) as error:
                log.info("%s: %s; trying again", self._node_name, error)
                await self._clock.sleep(backoff.next())

    def on_removed(self, uid: str) -> None:
        """Handles a pod that left this node and may be coming back."""
        for pod in self._cache:
            if pod["metadata"]["uid"] == uid:
                self._changed(None, pod)

    async def _locate(self, record: PodRecord) -> None:
        """A pod that has arrived belongs to this node in the API; one that has not belongs to another node, or is
        gone."""
        backoff = Backoff(0.2, 10.0)
        while record.coming and (record.termination is None or not record.termination.gone):
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
                self._roster.migration_failed(record.uid)
            return

    def _is_ours(self, pod: Object, uid: str) -> bool:
        if (pod.get("metadata") or {}).get("uid") != uid:
            return False
        migration = moving(pod)
        coming = migration is not None and migration.target == self._node_name
        return coming or pod["spec"].get("nodeName") == self._node_name
