"""Functions shared by both nodes of a migration: they report a step, and find the pod's runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import ContainerState, RuntimeFailure
from podfit.api.pods.migrations import ANNOTATION, SUBRESOURCE, Migration, MigrationStep
from podfit.api.registry.kinds import POD
from podfit.api.status import ApiError
from podfit.client.rest import Client

if TYPE_CHECKING:
    from podfit.agent.runtimes.cri.pods.migrations import Migrations

CONFLICT = 409


class Steps:
    def __init__(self, client: Client, runtime: Runtime, node_name: str) -> None:
        self._client, self._runtime, self.node_name = client, runtime, node_name

    def runtime(self, record: PodRecord) -> Migrations:
        """The pod's runtime. Raises RuntimeFailure if it cannot migrate VMs."""
        found = getattr(self._runtime, "migrations", None)
        migrations: Migrations | None = found(record.handler) if found is not None else None
        if migrations is None:
            raise RuntimeFailure("the container runtime of this node cannot move containers")
        return migrations

    async def report(self, record: PodRecord, migration: Migration, step: MigrationStep) -> bool:
        """Reports a step. False if the migration has ended otherwise, or the pod is gone, before the step could be
        reported."""
        meta = record.pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": meta["name"],
                "uid": record.uid,
                "annotations": {ANNOTATION: msgspec.json.encode(step).decode()},
            },
            "target": {"kind": "Node", "name": migration.target},
        }
        try:
            await self._client.create(POD, binding, record.namespace, meta["name"], SUBRESOURCE)
        except ApiError as error:
            if error.code in (CONFLICT, 404):
                return False
            raise
        return True


def machine_of(record: PodRecord) -> ContainerState | None:
    """The container of a VM pod, which has one at a time."""
    found = record.state.containers if record.state is not None else ()
    return found[-1] if found else None
