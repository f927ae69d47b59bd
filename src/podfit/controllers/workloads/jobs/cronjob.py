"""CronJobs: a Job at each due time, within the concurrency policy and the starting deadline."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

from podfit.api.cron import BadSchedule, Schedule, is_zone
from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError, go_quote, is_namespace_going
from podfit.api.text.times import zone_named
from podfit.controllers.context import ControllerContext
from podfit.controllers.workloads.jobs.job import is_finished
from podfit.controllers.workloads.ownership import Owned, owner_reference
from podfit.controllers.workloads.podstate import is_deleting
from podfit.kit.clock import parse_rfc3339, rfc3339
from podfit.reconcile import DONE, Engine, Requeue, Result

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
            # Times missed more than a month ago are skipped: counting them one by one would take too long.
            at = schedule.next(max(at, now - 3600 * 24 * 32)) if now - at > 3600 * 24 * 33 else schedule.next(at)
        else:
            at = schedule.next(at)
    return newest, missed


def due_text(due: float, zone: str) -> str:
    """A due time in the CronJob's time zone, with its offset from UTC."""
    shown = datetime.fromtimestamp(due, zone_named(zone) if zone else UTC).isoformat(timespec="seconds")
    return f"{shown.removesuffix('+00:00')}Z" if shown.endswith("+00:00") else shown


class CronJobController:
    name = "cronjob-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._engine: Engine[Key] = Engine(self.name, self._reconcile, workers=2, clock=context.clock)
        self._crons = context.cache(CRON_JOB)
        self._owned = Owned(context, CRON_JOB, JOB)
        self._crons.subscribe(lambda before, after: self._engine.add(_key(after)) if after else None)
        self._owned.wake(self._engine.add)

    async def run(self) -> None:
        await self._engine.run()

    async def _reconcile(self, key: Key) -> Result:
        cron = self._crons.get(*key)
        if cron is None or is_deleting(cron):
            return DONE
        jobs = await self._owned.of(cron, None)
        if _listed(cron) != {job["metadata"]["uid"] for job in jobs if not is_finished(job)}:
            # The cache may not show our own last write yet, which lists these jobs.
            cron = await self._context.client.find(CRON_JOB, *key) or cron
        status = self._status(cron, jobs)
        await self._clean_up(cron, jobs)
        schedule = None if cron["spec"].get("suspend") else self._schedule(cron)
        if schedule is None:
            await self._write(cron, status)
            return DONE
        await self._start_due(cron, schedule, jobs, status)
        await self._write(cron, status)
        upcoming = schedule.upcoming(_since(cron, status), self._context.clock.now())
        return Requeue(max(0.05, upcoming - self._context.clock.now()), "the next due time") if upcoming else DONE

    def _schedule(self, cron: Object) -> Schedule | None:
        """The parsed schedule. For an invalid one emits an Event and returns None: only a change of the CronJob
        helps."""
        text, zone = cron["spec"]["schedule"], cron["spec"].get("timeZone") or ""
        if zone and not is_zone(zone):
            reason, message = "UnknownTimeZone", f"invalid timeZone: {go_quote(zone)}: unknown time zone {zone}"
        else:
            try:
                return Schedule.parse(text, zone)
            except BadSchedule as error:
                reason, message = "UnparseableSchedule", f"unparseable schedule: {go_quote(text)} : {error}"
        self._context.recorder.record(cron, "Warning", reason, message)
        return None

    async def _start_due(self, cron: Object, schedule: Schedule, jobs: list[Object], status: Object) -> None:
        now = self._context.clock.now()
        since = _since(cron, status)
        deadline = cron["spec"].get("startingDeadlineSeconds")
        due, missed = due_time(schedule, since, now, deadline)
        if due is None:
            if deadline is not None:
                self._report_missed(cron, due_time(schedule, since, now, None)[0])
            return
        if missed > _TOO_MANY:
            message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self._context.recorder.record(cron, "Warning", "TooManyMissedTimes", message)
        active = [job for job in jobs if not is_finished(job) and not is_deleting(job)]
        policy = cron["spec"].get("concurrencyPolicy", "Allow")
        if active and policy == "Forbid":
            self._context.recorder.record(
                cron,
                "Normal",
                "JobAlreadyActive",
                "Not starting job because prior execution is running and concurrency policy is Forbid",
            )
            return
        if policy == "Replace":
            for job in active:
                await self._owned.delete(job, propagationPolicy="Background")
                self._context.recorder.record(
                    cron, "Normal", "SuccessfulDelete", f"Deleted job {job['metadata']['name']}"
                )
            status["active"] = []
        await self._create(cron, due, status)

    def _report_missed(self, cron: Object, due: float | None) -> None:
        if due is not None:
            when = format_datetime(datetime.fromtimestamp(due, UTC))
            message = f"Missed scheduled time to start a job: {when}"
            self._context.recorder.record(cron, "Warning", "MissSchedule", message)

    async def _create(self, cron: Object, due: float, status: Object) -> None:
        template, meta = cron["spec"]["jobTemplate"], cron["metadata"]
        inner = template.get("metadata") or {}
        annotations = {
            **(inner.get("annotations") or {}),
            "batch.kubernetes.io/cronjob-scheduled-timestamp": due_text(due, cron["spec"].get("timeZone") or ""),
        }
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                # Named by its due time: however often this is retried, the time has one Job.
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
            if is_namespace_going(error):
                return
            self._context.recorder.record(cron, "Warning", "FailedCreate", f"Error creating job: {error}")
            raise
        self._context.recorder.record(cron, "Normal", "SuccessfulCreate", f"Created job {job['metadata']['name']}")
        status["active"] = [*(status.get("active") or []), _reference(job)]
        status["lastScheduleTime"] = rfc3339(due)

    def _status(self, cron: Object, jobs: list[Object]) -> Object:
        status = dict(cron.get("status") or {})
        before = {reference["uid"]: reference["name"] for reference in status.get("active") or []}
        active = [job for job in jobs if not is_finished(job) and not is_deleting(job)]
        for uid in before.keys() - {job["metadata"]["uid"] for job in jobs}:
            message = f"Active job went missing: {before[uid]}"
            self._context.recorder.record(cron, "Normal", "MissingJob", message)
        for job in jobs:
            if not is_finished(job):
                if job["metadata"]["uid"] not in before and not is_deleting(job):
                    message = f"Saw a job that the controller did not create or forgot: {job['metadata']['name']}"
                    self._context.recorder.record(cron, "Warning", "UnexpectedJob", message)
                continue
            if job["metadata"]["uid"] in before:
                self._context.recorder.record(
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
                self._context.recorder.record(
                    cron, "Normal", "SuccessfulDelete", f"Deleted job {job['metadata']['name']}"
                )

    async def _write(self, cron: Object, status: Object) -> None:
        if not status.get("active"):
            status.pop("active", None)
        if status != (cron.get("status") or {}):
            await self._context.client.update(CRON_JOB, {**cron, "status": status}, "status")


def _key(cron: Object) -> Key:
    return cron["metadata"]["namespace"], cron["metadata"]["name"]


def _since(cron: Object, status: Object) -> float:
    """The last due time that was handled, or when the CronJob was created."""
    return parse_rfc3339(status.get("lastScheduleTime") or cron["metadata"]["creationTimestamp"])


def _listed(cron: Object) -> set[str]:
    return {str(reference["uid"]) for reference in (cron.get("status") or {}).get("active") or []}


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
        (
            condition["type"]
            for condition in conditions
            if condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
        ),
        "",
    )
