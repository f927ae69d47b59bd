"""Migrates VM pods away from this node. The phase in the pod's status decides the next step, so that a restarted agent
can resume.

The API decides where a pod is: this node releases a VM only when the pod no longer belongs to it, and it takes a VM
back only after the migration has been recorded as failed.
"""

from __future__ import annotations

import logging

from podfit.agent.containers.probing import Probing
from podfit.agent.core import Core
from podfit.agent.migration.steps import Steps, machine_of
from podfit.agent.pods.events import NORMAL, WARNING
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import RUNNING, RuntimeFailure, RuntimeSilent
from podfit.api.pods.migrations import FAILED, OFFERED, PREPARED, REQUESTED, Migration, MigrationStep, migration_of
from podfit.api.status import ApiError
from podfit.client.transport import Unreachable
from podfit.kit.backoff import Backoff

log = logging.getLogger(__name__)

PREPARE_S = 120.0
"""The time that either node may take to prepare, including the image pull."""
RETRY_S = 1.0
"""The delay before a runtime that is unreachable in the middle of a migration is queried again."""
JOB = "migrate"


class Departures:
    def __init__(self, core: Core, steps: Steps, probing: Probing) -> None:
        self._steps, self._probing = steps, probing
        self._events, self._clock, self._tasks = core.events, core.clock, core.tasks

    def leaving(self, record: PodRecord) -> Migration | None:
        found = migration_of(record.pod)
        return found if found is not None and found.under_way and found.source == self._steps.node_name else None

    async def settle(self, record: PodRecord) -> None:
        """Called after a failed migration: the VM keeps running here."""
        found = migration_of(record.pod)
        if found is None or found.phase != FAILED or found.source != self._steps.node_name:
            return
        container = machine_of(record)
        if record.stayed == found.requested or container is None or container.state != RUNNING:
            return
        await self._steps.runtime(record).stay(container.id)
        record.stayed = found.requested
        if record.moving_since is None or record.moving_since[0] != found.requested:
            # The migration ended before this agent started.
            return
        record.story.add("stays", found.message)
        self._events.emit(
            record.pod, WARNING, "FailedMigration", f"Migration to node {found.target} failed: {found.message}"
        )

    def follow(self, record: PodRecord, migration: Migration) -> float:
        """Performs the step of the current phase, outside the pass. Returns the seconds until the next pass, 0 for
        none."""
        self._probing.suspend(record)
        if record.moving_since is None or record.moving_since[0] != migration.requested:
            record.moving_since = (migration.requested, self._clock.monotonic())
        if record.jobs.running(JOB):
            return 0.0
        if migration.phase == OFFERED:
            left = record.moving_since[1] + PREPARE_S - self._clock.monotonic()
            if left > 0:
                return left
        record.jobs.start(JOB, self._work(record, migration), self._tasks)
        return 0.0

    async def _work(self, record: PodRecord, migration: Migration) -> None:
        step: MigrationStep | None
        if migration.phase == REQUESTED:
            step = await self._offer(record, migration)
        elif migration.phase == PREPARED:
            step = await self._move(record, migration)
        else:
            why = f"node {migration.target} did not prepare for it within {PREPARE_S:g} s"
            step = MigrationStep(FAILED, why)
        if step is not None:
            await self._report(record, migration, step)

    async def _offer(self, record: PodRecord, migration: Migration) -> MigrationStep:
        container = machine_of(record)
        if container is None or container.state != RUNNING:
            return MigrationStep(FAILED, "the VM does not run")
        self._events.emit(record.pod, NORMAL, "Migrating", f"Migrating to node {migration.target}")
        record.story.add("migrating", migration.target)
        deadline = self._clock.monotonic() + PREPARE_S
        while True:
            try:
                return MigrationStep(OFFERED, offer=await self._steps.runtime(record).offer(container.id))
            except RuntimeSilent as error:
                if self._clock.monotonic() > deadline:
                    return MigrationStep(FAILED, str(error))
            except (RuntimeFailure, OSError) as error:
                return MigrationStep(FAILED, str(error))
            await self._clock.sleep(RETRY_S)

    async def _move(self, record: PodRecord, migration: Migration) -> MigrationStep | None:
        """Moves the VM. Returns None once it has left this node: the other node reports that.

        A migration that is recorded as failed makes the other node end the VM if it runs there. So a failure is
        reported only when the runtime has confirmed that the VM stays; while it does not answer, or the state is
        different, it is queried again, and the migration continues or its outcome is reported.
        """
        runtime = self._steps.runtime(record)
        while True:
            container = machine_of(record)
            if container is None or container.state != RUNNING:
                return MigrationStep(FAILED, "the VM has stopped")
            try:
                await runtime.move(container.id, migration.place)
                break
            except RuntimeSilent as error:
                log.info("the migration of %s: %s", record.who, error)
            except (RuntimeFailure, OSError) as error:
                if await self._keep_here(record, container.id):
                    return MigrationStep(FAILED, str(error))
            await self._clock.sleep(RETRY_S)
        record.story.add("left", migration.target)
        return None

    async def _keep_here(self, record: PodRecord, id: str) -> bool:
        try:
            await self._steps.runtime(record).stay(id)
        except (RuntimeFailure, OSError) as error:
            log.info("the migration of %s: %s", record.who, error)
            return False
        return True

    async def _report(self, record: PodRecord, migration: Migration, step: MigrationStep) -> None:
        backoff = Backoff(0.2, 10.0)
        while True:
            try:
                await self._steps.report(record, migration, step)
                return
            except (ApiError, Unreachable) as error:
                log.warning("the migration of %s cannot be reported: %s", record.who, error)
                await self._clock.sleep(backoff.next())
