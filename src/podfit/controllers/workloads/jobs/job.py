"""Jobs: pods that run to completion, counted exactly once each.

A pod carries the finalizer `batch.kubernetes.io/job-tracking` until it is in the Job's counts, so that a pod deleted
early is still counted. The counts move in two steps, both safe to repeat: finished pods are first named in
`status.uncountedTerminatedPods`, then lose the finalizer, then their names become numbers.
"""

from __future__ import annotations

import asyncio
from itertools import islice

from podfit.api.indexes import Indexes
from podfit.api.objects import Object
from podfit.api.selectors import LabelSelector
from podfit.api.status import ApiError, is_namespace_going
from podfit.controllers.context import ControllerContext
from podfit.controllers.workloads.jobs.jobcount import (
    INDEX,
    PodCounts,
    failure_action,
    index_of,
    is_pod_failed,
    tally,
    waits_for_the_end,
    wanted_active,
)
from podfit.controllers.workloads.jobs.jobindexes import (
    FAILURES,
    failed_indexes,
    failures_so_far,
    has_index_limit,
    held,
)
from podfit.controllers.workloads.jobs.joborphans import JOB, TRACKING, JobOrphans, is_tracked, untrack
from podfit.controllers.workloads.jobs.jobverdict import COMPLETE, FAILED, JobVerdict, conclude, declare, verdict
from podfit.controllers.workloads.ownership import Owned, pod_of
from podfit.controllers.workloads.podstate import condition, deletion_rank, is_deleting, phase, set_condition
from podfit.kit.clock import parse_rfc3339, rfc3339
from podfit.kit.concurrency.tasks import Tasks
from podfit.reconcile import DONE, Engine, Requeue, Result

_BACKOFF_S, _BACKOFF_MAX_S = 10.0, 600.0
_BURST = 500
_LONGEST_BASE = 58
"""The length of a generated name without its five random letters."""
Key = tuple[str, str]


class JobController:
    name = "job-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._engine: Engine[Key] = Engine(self.name, self._reconcile, workers=4, clock=context.clock)
        self._expiring = context.acting("ttl-after-finished-controller")
        self._jobs = context.cache(JOB)
        self._owned = Owned(context, JOB, finalizer=TRACKING)
        self._orphans = JobOrphans(context)
        self._jobs.subscribe(self._changed)
        self._owned.wake(self._engine.add)

    async def run(self) -> None:
        tasks = Tasks(self.name)
        try:
            tasks.start(self._orphans.run(), "orphans")
            await self._engine.run()
        finally:
            await tasks.stop()

    def _changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._engine.add((after["metadata"]["namespace"], after["metadata"]["name"]))
        if before is not None and (after is None or after["metadata"]["uid"] != before["metadata"]["uid"]):
            # Deleted, or deleted and recreated under the same name before the watch showed it.
            self._owned.forget(before["metadata"]["uid"])
            self._orphans.job_gone(before)

    async def _reconcile(self, key: Key) -> Result:
        job = self._jobs.get(*key)
        if job is None:
            return DONE
        if job["spec"].get("managedBy") not in (None, "kubernetes.io/job-controller"):
            return DONE
        selector = LabelSelector.from_object(job["spec"].get("selector") or {})
        pods = await self._owned.of(job, selector)
        if is_finished(job):
            await self._untrack([pod for pod in pods if is_tracked(pod)])
            return await self._expire(job)
        job, counted = await self._count(job, pods)
        return await self._advance(job, pods, counted)

    # --- counts
    async def _count(self, job: Object, pods: list[Object]) -> tuple[Object, Object]:
        """Counts finished pods and removes their finalizer; returns the Job as last written, and its new status."""
        status = dict(job.get("status") or {})
        named = status.get("uncountedTerminatedPods") or {}
        good, bad = set(named.get("succeeded") or []), set(named.get("failed") or [])
        over = is_deleting(job) or _is_ending(job)
        fresh = [
            pod
            for pod in pods
            if is_tracked(pod)
            and (phase(pod) == "Succeeded" or is_pod_failed(job["spec"], pod) or (over and is_deleting(pod)))
        ]
        indexed = job["spec"].get("completionMode") == "Indexed"
        if indexed:
            self._count_indexes(job, status, fresh)
        if has_index_limit(job["spec"]):
            kept = set() if over else held(job["spec"], pods, _settled(status))
            fresh = [pod for pod in fresh if pod["metadata"]["uid"] not in kept]
        for pod in fresh:
            uid = pod["metadata"]["uid"]
            if phase(pod) == "Succeeded":
                good.add(uid)
            elif failure_action(job["spec"], pod)[0] != "Ignore":
                bad.add(uid)
        if fresh:
            status["uncountedTerminatedPods"] = _uncounted(good, bad)
            job = await self._context.client.update(JOB, {**job, "status": status}, "status")
            await self._untrack(fresh)
        still = {pod["metadata"]["uid"] for pod in pods if is_tracked(pod)} - {pod["metadata"]["uid"] for pod in fresh}
        if not indexed:
            status["succeeded"] = int(status.get("succeeded", 0)) + len(good - still)
        status["failed"] = int(status.get("failed", 0)) + len(bad - still)
        status["uncountedTerminatedPods"] = _uncounted(good & still, bad & still)
        return job, status

    def _count_indexes(self, job: Object, status: Object, fresh: list[Object]) -> None:
        total = int(job["spec"].get("completions", 1))
        fresh_done = Indexes.of(index_of(pod) for pod in fresh if phase(pod) == "Succeeded")
        done = (Indexes.parse(status.get("completedIndexes", "")) | fresh_done).below(total)
        status["completedIndexes"] = str(done)
        status["succeeded"] = len(done)
        if has_index_limit(job["spec"]):
            lost = Indexes.parse(status.get("failedIndexes", "")) | Indexes.of(failed_indexes(job["spec"], fresh))
            status["failedIndexes"] = str(lost - done)

    async def _untrack(self, pods: list[Object]) -> None:
        await asyncio.gather(*(untrack(self._context, pod) for pod in pods))

    # --- acting
    async def _advance(self, job: Object, pods: list[Object], status: Object) -> Result:
        spec, counts = job["spec"], tally(pods)
        succeeded, failed = int(status.get("succeeded", 0)), int(status.get("failed", 0))
        now = self._context.clock.now()
        again: Result = DONE
        found = verdict({**job, "status": status}, pods, counts, succeeded, failed, now)
        if found is not None:
            declare(status, found, now)
            await (self._withdraw if found.type == COMPLETE else self._end)(job, list(counts.active))
            if counts.terminating == 0 and not counts.active and not status["uncountedTerminatedPods"]:
                conclude(status, found, now)
            active = 0
        elif spec.get("suspend"):
            await self._withdraw(job, list(counts.active))
            self._suspend(job, status, True)
            active = 0
        elif is_deleting(job):
            active = len(counts.active)
        else:
            self._suspend(job, status, False)
            active, again = await self._scale(job, counts, status, succeeded, failed)
        await self._report(job, status, counts, active)
        if found is not None and is_finished({"status": status}):
            self._report_end(job, status, found)
        deadline = spec.get("activeDeadlineSeconds")
        if found is None and deadline and status.get("startTime") and not isinstance(again, Requeue):
            return Requeue(max(0.1, parse_rfc3339(status["startTime"]) + int(deadline) - now), "the Job's deadline")
        return again

    async def _end(self, job: Object, pods: list[Object]) -> None:
        await asyncio.gather(*(self._owned.delete(pod) for pod in pods))
        for pod in pods:
            self._context.recorder.record(job, "Normal", "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}")

    async def _withdraw(self, job: Object, pods: list[Object]) -> None:
        """Deletes pods that have not failed. Their finalizer is removed first, so that they do not count as
        failures."""
        await self._untrack(pods)
        await self._end(job, pods)

    def _report_end(self, job: Object, status: Object, found: JobVerdict) -> None:
        """Emits the Event about the end. Called after the status was written: that write fails for a stale copy of the
        Job, so no Event is emitted twice."""
        if found.type == FAILED:
            self._context.recorder.record(job, "Warning", found.reason, found.message)
            return
        if int(status.get("succeeded", 0)) > int(job["spec"].get("completions") or status.get("succeeded", 0)):
            message = "Too many succeeded pods running after completion count reached"
            self._context.recorder.record(job, "Warning", "TooManySucceededPods", message)
        self._context.recorder.record(job, "Normal", "Completed", "Job completed")

    def _suspend(self, job: Object, status: Object, yes: bool) -> None:
        now = rfc3339(self._context.clock.now())
        before = condition(job, "Suspended")
        if yes:
            status.pop("startTime", None)
            if before is None or before["status"] != "True":
                made = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}
                status["conditions"] = set_condition(
                    status.get("conditions") or [], {**made, "lastProbeTime": now, "lastTransitionTime": now}
                )
                self._context.recorder.record(job, "Normal", "Suspended", "Job suspended")
            return
        if before is not None and before["status"] == "True":
            made = {"type": "Suspended", "status": "False", "reason": "JobResumed", "message": "Job resumed"}
            status["conditions"] = set_condition(
                status.get("conditions") or [], {**made, "lastProbeTime": now, "lastTransitionTime": now}
            )
            status["startTime"] = now
            self._context.recorder.record(job, "Normal", "Resumed", "Job resumed")
        status.setdefault("startTime", now)

    async def _scale(
        self, job: Object, counts: PodCounts, status: Object, succeeded: int, failed: int
    ) -> tuple[int, Result]:
        active = len(counts.active)
        lost = len(Indexes.parse(status.get("failedIndexes", "")))
        wanted = wanted_active(job["spec"], active, succeeded, lost)
        if active > wanted:
            now = self._context.clock.now()
            ranked = sorted(counts.active, key=lambda pod: deletion_rank(pod, 0, now))
            await self._withdraw(job, ranked[: active - wanted])
            return wanted, DONE
        missing = min(wanted - active - (counts.terminating if waits_for_the_end(job["spec"]) else 0), _BURST)
        if missing <= 0:
            return active, DONE
        waits = self._waits(job, counts)
        wait_s = waits.pop(None, 0.0)
        if wait_s > 0:
            return active, Requeue(wait_s, "a failed pod is retried with backoff")
        bodies = self._bodies(job, counts, status, missing, set(waits))
        made, batch = 0, 1
        while bodies:
            # In growing batches: if the first pod is refused (quota), hundreds of others are not even tried.
            made += await self._create(job, bodies[:batch])
            bodies, batch = bodies[batch:], batch * 2
        again = Requeue(min(waits.values()), "a failed index is retried with backoff") if waits else DONE
        return active + made, again

    async def _create(self, job: Object, bodies: list[Object]) -> int:
        results = await asyncio.gather(*(self._owned.create(job, body) for body in bodies), return_exceptions=True)
        for result in results:
            if isinstance(result, ApiError) and not is_namespace_going(result):
                self._context.recorder.record(job, "Warning", "FailedCreate", f"Error creating: {result}")
            elif not isinstance(result, BaseException):
                message = f"Created pod: {result['metadata']['name']}"
                self._context.recorder.record(job, "Normal", "SuccessfulCreate", message)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return len(results)

    def _waits(self, job: Object, counts: PodCounts) -> dict[int | None, float]:
        """The remaining delay of each index; the key None means all of them."""
        if not has_index_limit(job["spec"]):
            return {None: self._backoff_left(counts)}
        now, waits = self._context.clock.now(), dict[int | None, float]()
        for index, failures in failures_so_far(job["spec"], list(counts.failed)).items():
            last = max(_finished_at(pod) for pod in counts.failed if index_of(pod) == index)
            left = last + min(_BACKOFF_S * 2.0 ** (failures - 1), _BACKOFF_MAX_S) - now if failures else 0.0
            if left > 0:
                waits[index] = left
        return waits

    def _backoff_left(self, counts: PodCounts) -> float:
        """The remaining delay of the next pod after consecutive failures: 10 s, 20 s, 40 s … from the newest
        failure."""
        ended = sorted((_finished_at(pod) for pod in counts.failed), reverse=True)
        good = max((_finished_at(pod) for pod in counts.succeeded), default=0.0)
        row = [at for at in ended if at > good]
        if not row:
            return 0.0
        delay = min(_BACKOFF_S * 2.0 ** (len(row) - 1), _BACKOFF_MAX_S)
        return max(0.0, row[0] + delay - self._context.clock.now())

    def _bodies(
        self, job: Object, counts: PodCounts, status: Object, missing: int, waiting: set[int | None]
    ) -> list[Object]:
        template = job["spec"].get("template") or {}
        meta = {**(template.get("metadata") or {}), "finalizers": [TRACKING]}
        if job["spec"].get("completionMode") != "Indexed":
            return [pod_of({**template, "metadata": meta}, JOB, job)] * missing
        taken = Indexes.of(index_of(pod) for pod in counts.active) | _settled(status) | Indexes.of(waiting)
        free = list(islice(taken.missing(int(job["spec"].get("completions", 1))), missing))
        if not has_index_limit(job["spec"]):
            return [self._indexed(job, template, meta, index) for index in free]
        failures = failures_so_far(job["spec"], list(counts.failed))
        return [
            self._indexed(job, template, _annotated(meta, {FAILURES: str(failures.get(index, 0))}), index)
            for index in free
        ]

    def _indexed(self, job: Object, template: Object, meta: Object, index: int) -> Object:
        marked = _annotated(meta, {INDEX: str(index)})
        body = pod_of({**template, "metadata": marked}, JOB, job, labels={INDEX: str(index)})
        suffix = f"-{index}-"
        body["metadata"]["generateName"] = job["metadata"]["name"][: _LONGEST_BASE - len(suffix)] + suffix
        spec = {**body["spec"], "hostname": f"{job['metadata']['name']}-{index}"}
        variable = {
            "name": "JOB_COMPLETION_INDEX",
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}},
        }
        for field in ("initContainers", "containers"):
            if spec.get(field):
                spec[field] = [_with_variable(container, variable) for container in spec[field]]
        return {**body, "spec": spec}

    # --- Events
    async def _report(self, job: Object, status: Object, counts: PodCounts, active: int) -> None:
        numbers = {
            "active": active,
            "succeeded": int(status.get("succeeded", 0)),
            "failed": int(status.get("failed", 0)),
        }
        for field, number in numbers.items():
            status.pop(field, None)
            if number:
                status[field] = number
        status["terminating"] = counts.terminating
        status["ready"] = min(counts.ready, active)
        status.setdefault("uncountedTerminatedPods", {})
        if status != (job.get("status") or {}):
            await self._context.client.update(JOB, {**job, "status": status}, "status")

    async def _expire(self, job: Object) -> Result:
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None or is_deleting(job):
            return DONE
        ended = next(
            condition
            for condition in job["status"]["conditions"]
            if condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
        )
        left = parse_rfc3339(ended["lastTransitionTime"]) + int(ttl) - self._context.clock.now()
        if left > 0:
            return Requeue(left, "a finished Job is kept for its TTL")
        meta = job["metadata"]
        options = {"preconditions": {"uid": meta["uid"]}, "propagationPolicy": "Foreground"}
        await self._expiring.client.delete(JOB, meta["namespace"], meta["name"], options)
        return DONE


def is_finished(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(
        condition["type"] in ("Complete", "Failed") and condition["status"] == "True" for condition in conditions
    )


def _is_ending(job: Object) -> bool:
    """Whether the Job was declared failed: pods that are then deleted count as failed."""
    target = condition(job, "FailureTarget")
    return target is not None and target["status"] == "True"


def _settled(status: Object) -> Indexes:
    """Indexes that are not retried any more: completed, or failed for good."""
    return Indexes.parse(status.get("completedIndexes", "")) | Indexes.parse(status.get("failedIndexes", ""))


def _annotated(meta: Object, more: dict[str, str]) -> Object:
    return {**meta, "annotations": {**(meta.get("annotations") or {}), **more}}


def _with_variable(container: Object, variable: Object) -> Object:
    """The container with the variable added, unless it defines the variable itself."""
    have = container.get("env") or []
    return (
        container
        if any(entry["name"] == variable["name"] for entry in have)
        else {**container, "env": [*have, variable]}
    )


def _uncounted(good: set[str], bad: set[str]) -> Object:
    made: Object = {}
    if good:
        made["succeeded"] = sorted(good)
    if bad:
        made["failed"] = sorted(bad)
    return made


def _finished_at(pod: Object) -> float:
    ends = []
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        ended = (status.get("state") or {}).get("terminated") or {}
        if ended.get("finishedAt"):
            ends.append(parse_rfc3339(ended["finishedAt"]))
    return max(ends) if ends else parse_rfc3339(pod["metadata"]["creationTimestamp"])
