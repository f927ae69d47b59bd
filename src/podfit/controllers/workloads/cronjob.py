"""CronJobs: a Job at each due time, within the concurrency policy and the starting deadline."""

from __future__ import annotations

from zoneinfo import ZoneInfoNotFoundError

from podfit.api.kinds import kind_named
from podfit.api.status import ApiError, Object
from podfit.controllers.workloads.job import is_finished
from podfit.controllers.workloads.ownership import Owned, owner_reference
from podfit.controllers.workloads.podstate import is_deleting
from podfit.controllers.workloads.schedule import BadSchedule, Schedule
from podfit.controllers.world import World
from podfit.kit.clock import parse_rfc3339, rfc3339
from podfit.reconcile import DONE, Again, Engine, Result

CRON_JOB, JOB = kind_named("CronJob"), kind_named("Job")
_TOO_MANY = 100
Key = tuple[str, str]


def due_time(schedule: Schedule, since: float, now: float, deadline_s: int | None) -> tuple[float | None, int]:
    """The newest due time in (since, now], and how many there were. Pure."""
    start = max(since, now - deadline_s) if deadline_s is not None else since
    newest, missed = None, 0
    at = schedule.next(start)
    while at is not None and at <= now:
        newest, missed = at, missed + 1
        if missed > _TOO_MANY:
            # Far behind: counting one by one would take as long as the outage did.
            at = schedule.next(max(at, now - 3600 * 24 * 32)) if now - at > 3600 * 24 * 33 else schedule.next(at)
        else:
            at = schedule.next(at)
    return newest, missed


class CronJobController:
    name = "cronjob-controller"

    def __init__(self, world: World) -> None:
        self._world = world
        self._engine: Engine[Key] = Engine(self.name, self._reconcile, workers=2, clock=world.clock)
        self._crons = world.cache(CRON_JOB)
        self._owned = Owned(world, CRON_JOB, JOB)
        self._crons.subscribe(lambda before, after: self._engine.add(_key(after)) if after else None)
        self._owned.wake(self._engine.add)

    async def run(self) -> None:
        await self._engine.run()

    async def _reconcile(self, key: Key) -> Result:
        cron = self._crons.get(*key)
        if cron is None or is_deleting(cron):
            return DONE
        jobs = await self._owned.of(cron, None)
        status = self._status(cron, jobs)
        await self._clean_up(cron, jobs)
        try:
            schedule = Schedule.parse(cron["spec"]["schedule"], cron["spec"].get("timeZone") or "")
        except (BadSchedule, ZoneInfoNotFoundError) as error:
            self._world.recorder.record(cron, "Warning", "UnparseableSchedule", f"unparseable schedule: {error}")
            await self._write(cron, status)
            return DONE
        if not cron["spec"].get("suspend"):
            await self._start_due(cron, schedule, jobs, status)
        await self._write(cron, status)
        upcoming = schedule.next(self._world.clock.now())
        return Again(max(0.05, upcoming - self._world.clock.now()), "the next due time") if upcoming else DONE

    async def _start_due(self, cron: Object, schedule: Schedule, jobs: list[Object], status: Object) -> None:
        now = self._world.clock.now()
        since = parse_rfc3339(status.get("lastScheduleTime") or cron["metadata"]["creationTimestamp"])
        due, missed = due_time(schedule, since, now, cron["spec"].get("startingDeadlineSeconds"))
        if due is None:
            return
        if missed > _TOO_MANY:
            self._world.recorder.record(
                cron,
                "Warning",
                "TooManyMissedTimes",
                f"too many missed start times: {missed}. "
                "Set or decrease .spec.startingDeadlineSeconds or check clock skew",
            )
        active = [job for job in jobs if not is_finished(job) and not is_deleting(job)]
        policy = cron["spec"].get("concurrencyPolicy", "Allow")
        if active and policy == "Forbid":
            self._world.recorder.record(
                cron,
                "Normal",
                "JobAlreadyActive",
                "Not starting job because prior execution is running and concurrency policy is Forbid",
            )
            return
        if policy == "Replace":
            for job in active:
                await self._owned.delete(job, propagationPolicy="Background")
                self._world.recorder.record(
                    cron, "Normal", "SuccessfulDelete", f"Deleted job {job['metadata']['name']}"
                )
            status["active"] = []
        await self._create(cron, due, status)

    async def _create(self, cron: Object, due: float, status: Object) -> None:
        template, meta = cron["spec"]["jobTemplate"], cron["metadata"]
        inner = template.get("metadata") or {}
        annotations = {
            **(inner.get("annotations") or {}),
            "batch.kubernetes.io/cronjob-scheduled-timestamp": rfc3339(due),
        }
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                # Named by its due time: however often this is tried, the time has one Job.
                "name": f"{meta['name']}-{int(due) // 60}",
                "namespace": meta["namespace"],
                "labels": inner.get("labels") or {},
                "annotations": annotations,
                "ownerReferences": [owner_reference(CRON_JOB, cron)],
            },
            "spec": template.get("spec") or {},
        }
        try:
            job = await self._owned.create(cron, body)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                status["lastScheduleTime"] = rfc3339(due)
                return
            self._world.recorder.record(cron, "Warning", "FailedCreate", f"Error creating job: {error}")
            raise
        self._world.recorder.record(cron, "Normal", "SuccessfulCreate", f"Created job {job['metadata']['name']}")
        status["active"] = [*(status.get("active") or []), _reference(job)]
        status["lastScheduleTime"] = rfc3339(due)

    def _status(self, cron: Object, jobs: list[Object]) -> Object:
        status = dict(cron.get("status") or {})
        before = {one["uid"] for one in status.get("active") or []}
        active = [job for job in jobs if not is_finished(job) and not is_deleting(job)]
        for job in jobs:
            if is_finished(job) and job["metadata"]["uid"] in before:
                self._world.recorder.record(
                    cron,
                    "Normal",
                    "SawCompletedJob",
                    f"Saw completed job: {job['metadata']['name']}, condition: {_ending(job)}",
                )
                done = (job.get("status") or {}).get("completionTime")
                if done and done > status.get("lastSuccessfulTime", ""):
                    status["lastSuccessfulTime"] = done
        status["active"] = [_reference(job) for job in active]
        return status

    async def _clean_up(self, cron: Object, jobs: list[Object]) -> None:
        for ending, field, default in (
            ("Complete", "successfulJobsHistoryLimit", 3),
            ("Failed", "failedJobsHistoryLimit", 1),
        ):
            limit = int(cron["spec"].get(field, default))
            ended = [job for job in jobs if _ending(job) == ending and not is_deleting(job)]
            ended.sort(key=lambda job: str((job.get("status") or {}).get("startTime", "")))
            for job in ended[: max(0, len(ended) - limit)]:
                await self._owned.delete(job, propagationPolicy="Background")
                self._world.recorder.record(
                    cron, "Normal", "SuccessfulDelete", f"Deleted job {job['metadata']['name']}"
                )

    async def _write(self, cron: Object, status: Object) -> None:
        if not status.get("active"):
            status.pop("active", None)
        if status != (cron.get("status") or {}):
            await self._world.client.update(CRON_JOB, {**cron, "status": status}, "status")


def _key(cron: Object) -> Key:
    return cron["metadata"]["namespace"], cron["metadata"]["name"]


def _reference(job: Object) -> Object:
    meta = job["metadata"]
    return {
        "kind": "Job",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
        "apiVersion": "batch/v1",
        "resourceVersion": meta.get("resourceVersion", ""),
    }


def _ending(job: Object) -> str:
    conditions = (job.get("status") or {}).get("conditions") or []
    return next(
        (one["type"] for one in conditions if one["type"] in ("Complete", "Failed") and one["status"] == "True"), ""
    )
