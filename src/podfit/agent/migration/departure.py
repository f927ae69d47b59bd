"""VM pods that leave this node. The phase in the pod decides what is done, so that an agent that was killed goes on.

The API decides where a pod is: this node lets go of a VM only when the pod is no longer its own, and it takes a VM back
only after the migration has been recorded as failed.
"""

from __future__ import annotations

import logging

from podfit.agent.migration.steps import Steps, machine_of
from podfit.agent.notices import NORMAL, WARNING, Notices
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.base import RUNNING, RuntimeFailure, RuntimeSilent
from podfit.api.migrations import FAILED, OFFERED, PREPARED, REQUESTED, Migration, Step, migration_of
from podfit.api.status import ApiError
from podfit.client.transport import Unreachable
from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock
from podfit.kit.tasks import Tasks

log = logging.getLogger(__name__)

PREPARE_S = 120.0
"""How long the other node may take to prepare, pulling the image included."""
SILENCE_S = 120.0
"""How long this node's runtime may be away in the middle of a move."""
JOB = "migrate"


class Departures:
    def __init__(self, steps: Steps, notices: Notices, clock: Clock, tasks: Tasks) -> None:
        self._steps, self._notices, self._clock, self._tasks = steps, notices, clock, tasks

    def leaving(self, record: PodRecord) -> Migration | None:
        found = migration_of(record.pod)
        return found if found is not None and found.under_way and found.source == self._steps.node_name else None

    async def settle(self, record: PodRecord) -> None:
        """After a migration that failed: the VM goes on here."""
        found = migration_of(record.pod)
        if found is None or found.phase != FAILED or found.source != self._steps.node_name:
            return
        container = machine_of(record)
        if record.stayed == found.requested or container is None or container.state != RUNNING:
            return
        await self._steps.runtime(record).stay(container.id)
        record.stayed = found.requested
        record.story.tell("stays", found.message)
        self._notices.say(
            record.pod, WARNING, "FailedMigration", f"Migration to node {found.target} failed: {found.message}"
        )

    def follow(self, record: PodRecord, migration: Migration) -> list[float]:
        """Does what the phase asks for, without keeping the pass waiting. Returns when to look again."""
        if record.probes is not None:
            # It may run elsewhere at any moment: nobody here can judge it. Its last state stays.
            record.probes.stop()
            record.probes = None
        if record.moving_since is None or record.moving_since[0] != migration.requested:
            record.moving_since = (migration.requested, self._clock.monotonic())
        if record.job(JOB):
            return []
        if migration.phase == OFFERED:
            left = record.moving_since[1] + PREPARE_S - self._clock.monotonic()
            if left > 0:
                return [left]
        record.jobs[JOB] = self._tasks.start(self._work(record, migration), JOB)
        return []

    async def _work(self, record: PodRecord, migration: Migration) -> None:
        try:
            step: Step | None
            if migration.phase == REQUESTED:
                step = await self._offer(record, migration)
            elif migration.phase == PREPARED:
                step = await self._move(record, migration)
            else:
                why = f"node {migration.target} did not prepare for it within {PREPARE_S:g} s"
                step = Step(FAILED, why)
            if step is not None:
                await self._report(record, migration, step)
        finally:
            record.jobs.pop(JOB, None)

    async def _offer(self, record: PodRecord, migration: Migration) -> Step:
        container = machine_of(record)
        if container is None or container.state != RUNNING:
            return Step(FAILED, "the VM does not run")
        self._notices.say(record.pod, NORMAL, "Migrating", f"Migrating to node {migration.target}")
        record.story.tell("migrating", migration.target)
        try:
            return Step(OFFERED, offer=await self._steps.runtime(record).offer(container.id))
        except (RuntimeFailure, OSError) as error:
            return Step(FAILED, str(error))

    async def _move(self, record: PodRecord, migration: Migration) -> Step | None:
        """None once it has left: the other node reports that."""
        container = machine_of(record)
        if container is None or container.state != RUNNING:
            return Step(FAILED, "the VM has ended")
        patience = self._clock.monotonic() + SILENCE_S
        while True:
            try:
                await self._steps.runtime(record).move(container.id, migration.place)
                break
            except RuntimeSilent as error:
                # It may be moving all the same: asked again, the runtime goes on with it.
                if self._clock.monotonic() > patience:
                    return Step(FAILED, str(error))
                await self._clock.sleep(1.0)
            except (RuntimeFailure, OSError) as error:
                return Step(FAILED, str(error))
        record.story.tell("left", migration.target)
        return None

    async def _report(self, record: PodRecord, migration: Migration, step: Step) -> None:
        backoff = Backoff(0.2, 10.0)
        while True:
            try:
                await self._steps.report(record, migration, step)
                return
            except (ApiError, Unreachable) as error:
                log.warning("the migration of %s cannot be reported: %s", record.who, error)
                await self._clock.sleep(backoff.next())
