"""Receives VM pods that are migrated to this node. They hold their allocation from the moment they are expected.

Everything is prepared before the VM is moved: allocation, image, volumes, sandbox, and the VM definition in the
runtime. Once it runs here, the switch is reported to the API, and from then on it is a regular pod of this node.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from podfit.agent.actuation.adoption import Adoption
from podfit.agent.containers.sandboxes import SandboxStarter
from podfit.agent.core import Core
from podfit.agent.cpus.policy import CpuPolicy
from podfit.agent.decide.resize import kernel
from podfit.agent.furnish.containers import ConfigProblem
from podfit.agent.furnish.runtimeclasses import RuntimeClasses
from podfit.agent.images.pulls import ImagePulls
from podfit.agent.migration.logs import EarlierLogs
from podfit.agent.migration.steps import Steps, machine_of
from podfit.agent.pods.events import NORMAL
from podfit.agent.pods.observe import observe
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import CREATED, RuntimeFailure, RuntimeSilent
from podfit.api.objects import Object
from podfit.api.pods.migrations import FAILED, MOVED, OFFERED, PREPARED, Migration, MigrationStep, moving
from podfit.api.resize.states import effective
from podfit.kit.process.oserrors import system_words
from podfit.reconcile.result import DONE, Requeue, Result

RETRY_S = 1.0
"""The delay before a runtime that is unreachable is queried again. The source gives up if this takes too long."""
_NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")


class Arrivals:
    def __init__(
        self,
        core: Core,
        steps: Steps,
        sandboxes: SandboxStarter,
        images: ImagePulls,
        classes: RuntimeClasses,
        cpus: CpuPolicy,
        adoption: Adoption,
        logs: EarlierLogs,
    ) -> None:
        self._core, self._steps, self._sandboxes, self._images = core, steps, sandboxes, images
        self._classes, self._cpus, self._adoption, self._logs = classes, cpus, adoption, logs

    def coming(self, record: PodRecord) -> Migration | None:
        found = moving(record.pod)
        return found if found is not None and found.target == self._steps.node_name else None

    async def run(self, record: PodRecord) -> Result:
        migration = self.coming(record)
        if migration is None:
            return DONE
        if record.rejected is not None:
            reason, message = record.rejected
            await self._fail(record, migration, f"{reason}: {message}")
            return DONE
        if migration.phase == OFFERED:
            return await self._prepare(record, migration)
        if migration.phase == PREPARED:
            return await self._take_over(record, migration)
        return DONE

    async def _fail(self, record: PodRecord, migration: Migration, why: str) -> None:
        record.story.add("cannot come", why)
        await self._steps.report(record, migration, MigrationStep(FAILED, why))

    # --- before it is moved
    async def _prepare(self, record: PodRecord, migration: Migration) -> Result:
        try:
            if missing_s := await self._sandboxes.mount(record):
                return Requeue(missing_s, "a volume is missing")
            await self._classes.resolve(record)
            container = record.pod["spec"]["containers"][0]
            image = await self._images.get(record, container)
            if image is None:
                return await self._without_image(record, migration, container)
            place = await self._place(record, migration, image)
        except RuntimeSilent as error:
            return Requeue(RETRY_S, str(error))
        except (RuntimeFailure, ConfigProblem, OSError) as error:
            await self._fail(record, migration, system_words(error))
            return DONE
        await self._steps.report(record, migration, MigrationStep(PREPARED, place=place))
        return DONE

    async def _without_image(self, record: PodRecord, migration: Migration, container: Object) -> Result:
        reason, why = record.waiting.get(container["name"]) or ("", "")
        if reason not in _NO_IMAGE:
            return DONE
        if await self._core.runtime.image_status(container["image"], record.handler) is not None:
            # Only the runtime could not be reached when the image was looked up.
            return Requeue(RETRY_S, "the image is looked up again")
        await self._fail(record, migration, f"{reason}: {why}")
        return DONE

    async def _place(self, record: PodRecord, migration: Migration, image: str) -> dict[str, object]:
        snapshot = await observe(record, self._core.ledger, self._core.runtime)
        await self._sandboxes.create(record, snapshot)
        await observe(record, self._core.ledger, self._core.runtime)
        container = record.pod["spec"]["containers"][0]
        name, status = container["name"], record.pod.get("status") or {}
        listed = status.get("containerStatuses") or ()
        reported: Object = next((known for known in listed if known["name"] == name), {})
        wanted = effective(snapshot.allocated.containers.get(name), snapshot.allocated.pod)
        limits, attempt = kernel.container_limits(wanted), int(reported.get("restartCount") or 0)
        config = await self._sandboxes.maker.container_config(record, container, attempt, limits)
        found: dict[str, object] = {}

        async def prepare(cpus: str) -> str:
            given = replace(config, image_id=image, limits=structs.replace(config.limits, cpuset_cpus=cpus))
            found.update(await self._steps.runtime(record).prepare(record.uid, given, migration.offer))
            return str(migration.offer["id"])

        await self._cpus.create(record.uid, name, prepare)
        return found

    # --- once it runs here
    async def _take_over(self, record: PodRecord, migration: Migration) -> Result:
        snapshot = await observe(record, self._core.ledger, self._core.runtime)
        container = machine_of(record)
        if container is None or container.state == CREATED or snapshot.state is None:
            # The runtime reports its arrival, and that triggers the next pass.
            return DONE
        await self._logs.fetch(record, container)
        await self._steps.runtime(record).adopt(container.id)
        await self._adoption.adopt(record.pod, snapshot.state)
        await self._core.ledger.flush()
        if await self._steps.report(record, migration, MigrationStep(MOVED)):
            record.story.add("arrived", f"from node {migration.source}")
            self._core.events.emit(record.pod, NORMAL, "Migrated", f"Migrated from node {migration.source}")
        return DONE
