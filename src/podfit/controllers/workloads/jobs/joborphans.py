"""Removes the tracking finalizer from pods whose Job is gone: no Job will ever count them.

An existing Job removes the finalizer itself after it has counted the pod. A Job deleted in the background, or with its
pods orphaned, never does. The pods are found by their own changes, by the deletion of their Job, and by one scan of all
pods at the start.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, kind_named
from podfit.api.status import ApiError
from podfit.client.rest import STRATEGIC
from podfit.controllers.context import ControllerContext
from podfit.controllers.owners import controller_of
from podfit.reconcile import DONE, Engine, Result

JOB = kind_named("Job")
TRACKING = "batch.kubernetes.io/job-tracking"
Key = tuple[str, str]


def is_tracked(pod: Object) -> bool:
    return TRACKING in (pod["metadata"].get("finalizers") or ())


class JobOrphans:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._jobs, self._pods = context.cache(JOB), context.cache(POD)
        self._engine: Engine[Key] = Engine("job-orphans", self._reconcile, workers=2, clock=context.clock)
        self._pods.subscribe(lambda before, after: self._check(after))

    async def run(self) -> None:
        for pod in self._pods:
            self._check(pod)
        await self._engine.run()

    def job_gone(self, job: Object) -> None:
        for pod in self._pods.by("controller", job["metadata"]["uid"]):
            self._check(pod)

    def _check(self, pod: Object | None) -> None:
        if pod is not None and is_tracked(pod) and self._may_be_orphan(pod) and self._jobs.ready.is_set():
            self._engine.add((pod["metadata"]["namespace"], pod["metadata"]["name"]))

    def _may_be_orphan(self, pod: Object) -> bool:
        owner = controller_of(pod)
        if owner is None:
            return True
        if (owner.get("apiVersion"), owner.get("kind")) != (JOB.api_version, JOB.kind):
            return False
        job = self._jobs.get(pod["metadata"]["namespace"], owner["name"])
        return job is None or job["metadata"]["uid"] != owner["uid"]

    async def _reconcile(self, key: Key) -> Result:
        pod = self._pods.get(*key)
        if pod is not None and is_tracked(pod) and self._may_be_orphan(pod) and not await self._job_exists(pod):
            # A Job may be adopting the pod at this moment.
            await untrack(self._context, pod, as_seen=True)
        return DONE

    async def _job_exists(self, pod: Object) -> bool:
        """Reads the server: the cache may lag behind."""
        owner = controller_of(pod)
        if owner is None:
            return False
        job = await self._context.client.find(JOB, pod["metadata"]["namespace"], owner["name"])
        return job is not None and job["metadata"]["uid"] == owner["uid"]


async def untrack(context: ControllerContext, pod: Object, *, as_seen: bool = False) -> None:
    """Removes the finalizer from this very pod; with `as_seen` only if the pod has not changed since.

    A pod that is gone, replaced or changed is left alone: the watch shows it again.
    """
    meta = pod["metadata"]
    change = {"uid": meta["uid"], "$deleteFromPrimitiveList/finalizers": [TRACKING]}
    if as_seen:
        change["resourceVersion"] = meta["resourceVersion"]
    try:
        await context.client.patch(POD, meta["namespace"], meta["name"], {"metadata": change}, content_type=STRATEGIC)
    except ApiError as error:
        if error.code not in (404, 409):
            raise
