"""VM pods that come to this node. They hold what they were promised from the moment they are expected.

Everything is made before the VM is moved: promise, image, volumes, sandbox, and its place in the runtime. Once it runs
here, the switch is reported to the API, and from then on it is a pod of this node like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from msgspec import structs

from podfit.agent.adopt import adopt
from podfit.agent.cpus.policy import CpuPolicy
from podfit.agent.decide import kernel
from podfit.agent.decide.states import Object, effective
from podfit.agent.furnish.containers import ConfigProblem, ContainerMaker
from podfit.agent.furnish.runtimeclasses import RuntimeClasses
from podfit.agent.ledger import Ledger
from podfit.agent.life.images import ImagePulls
from podfit.agent.life.starter import Starter
from podfit.agent.migration.logs import EarlierLogs
from podfit.agent.migration.steps import Steps, machine_of
from podfit.agent.notices import NORMAL, Notices
from podfit.agent.observe import observe
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.base import CREATED, Runtime, RuntimeFailure
from podfit.api.migrations import FAILED, MOVED, OFFERED, PREPARED, Migration, Step, moving
from podfit.kit.oserrors import system_words
from podfit.reconcile.result import DONE, Again, Result

_NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")


class Arrivals:
    def __init__(
        self,
        steps: Steps,
        runtime: Runtime,
        ledger: Ledger,
        starter: Starter,
        images: ImagePulls,
        classes: RuntimeClasses,
        maker: ContainerMaker,
        cpus: CpuPolicy,
        logs: EarlierLogs,
        notices: Notices,
    ) -> None:
        self._steps, self._runtime, self._ledger, self._starter = steps, runtime, ledger, starter
        self._images, self._classes, self._maker, self._cpus = images, classes, maker, cpus
        self._logs, self._notices = logs, notices
        self.gone: Callable[[str], None] = lambda uid: None
        """Told of a pod that does not come; set by the agent."""

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
        record.story.tell("cannot come", why)
        await self._steps.report(record, migration, Step(FAILED, why))

    # --- before it is moved
    async def _prepare(self, record: PodRecord, migration: Migration) -> Result:
        try:
            if missing_s := await self._starter.mount(record):
                return Again(missing_s, "a volume is missing")
            record.handler = await self._classes.handler(record.pod)
            container = record.pod["spec"]["containers"][0]
            image = await self._images.get(record, container)
            if image is None:
                reason, why = record.waiting.get(container["name"], ("", ""))
                if reason in _NO_IMAGE:
                    await self._fail(record, migration, f"{reason}: {why}")
                return DONE
            place = await self._place(record, migration, image)
        except (RuntimeFailure, ConfigProblem, OSError) as error:
            await self._fail(record, migration, system_words(error))
            return DONE
        await self._steps.report(record, migration, Step(PREPARED, place=place))
        return DONE

    async def _place(self, record: PodRecord, migration: Migration, image: str) -> dict[str, object]:
        snapshot = await observe(record, self._ledger, self._runtime)
        await self._starter.sandbox(record, snapshot)
        await observe(record, self._ledger, self._runtime)
        container = record.pod["spec"]["containers"][0]
        name, status = container["name"], record.pod.get("status") or {}
        shown: Object = next((one for one in status.get("containerStatuses") or () if one["name"] == name), {})
        wanted = effective(snapshot.allocated.containers.get(name), snapshot.allocated.pod)
        limits, attempt = kernel.container_limits(wanted), int(shown.get("restartCount") or 0)
        config = await self._maker.container_config(record, container, attempt, limits)
        found: dict[str, object] = {}

        async def prepare(cpus: str) -> str:
            given = replace(config, image_id=image, limits=structs.replace(config.limits, cpuset_cpus=cpus))
            found.update(await self._steps.runtime(record).prepare(record.uid, given, migration.offer))
            return str(migration.offer["id"])

        await self._cpus.create(record.uid, name, prepare)
        return found

    # --- once it runs here
    async def _take_over(self, record: PodRecord, migration: Migration) -> Result:
        snapshot = await observe(record, self._ledger, self._runtime)
        container = machine_of(record)
        if container is None or container.state == CREATED or snapshot.state is None:
            # The runtime reports its arrival, and that brings the next pass.
            return DONE
        await self._logs.fetch(record, container)
        await self._steps.runtime(record).adopt(container.id)
        await adopt(record.pod, snapshot.state, self._ledger, self._runtime)
        await self._ledger.flush()
        if await self._steps.report(record, migration, Step(MOVED)):
            record.story.tell("arrived", f"from node {migration.source}")
            self._notices.say(record.pod, NORMAL, "Migrated", f"Migrated from node {migration.source}")
        return DONE
