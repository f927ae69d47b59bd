"""Removes what is left of a terminated pod from this node, then releases its object in the API."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence

from podfit.agent.actuation.memory_waits import MemoryWaits
from podfit.agent.core import Core
from podfit.agent.cpus.policy import CpuPolicy
from podfit.agent.furnish.containers import ContainerMaker
from podfit.agent.furnish.volumes.volumes import Volumes
from podfit.agent.images.pulls import ImagePulls
from podfit.agent.pods.record import PodRecord
from podfit.agent.roster.roster import Roster
from podfit.api.registry.kinds import POD
from podfit.api.status import ApiError
from podfit.client.rest import Client

_OPTIONS = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}


class Finalizer:
    def __init__(
        self,
        core: Core,
        client: Client,
        roster: Roster,
        cpus: CpuPolicy,
        volumes: Volumes,
        maker: ContainerMaker,
        images: ImagePulls,
        on_removed: Sequence[Callable[[str], None]],
    ) -> None:
        """`on_removed`: called with the uid of each pod that is gone from the node and from the API."""
        self._core, self._client, self._roster, self._cpus = core, client, roster, cpus
        self._volumes, self._maker, self._images, self._on_removed = volumes, maker, images, on_removed

    async def finalize(self, record: PodRecord) -> None:
        if not record.removed:
            await self._remove(record)
        if record.termination is not None and record.termination.gone:
            self._roster.forget(record.uid)
            self._core.queue.forget(record.uid)
            for notify in self._on_removed:
                notify(record.uid)
            return
        options = {**_OPTIONS, "preconditions": {"uid": record.uid}}
        try:
            await self._client.delete(POD, record.namespace, record.name, options)
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    async def _remove(self, record: PodRecord) -> None:
        await self._core.runtime.remove_pod(record.uid)
        self._cpus.release(record.uid)
        if self._core.config.on_disk:
            self._volumes.remove(record.uid)
            shutil.rmtree(self._maker.log_folder(record), ignore_errors=True)
        self._core.ledger.forget(record.uid)
        MemoryWaits.forget(record)
        self._images.forget(record.uid)
        record.removed = True
