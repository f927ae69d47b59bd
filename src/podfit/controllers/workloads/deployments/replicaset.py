"""ReplicaSets and ReplicationControllers: exactly the requested number of pods."""

from __future__ import annotations

import asyncio
from collections import Counter

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, Kind, kind_named
from podfit.api.selectors import LabelSelector
from podfit.api.status import ApiError, is_namespace_going
from podfit.client.transport import Unreachable
from podfit.controllers.context import ControllerContext
from podfit.controllers.workloads.inplace import InPlace, batch_of, marks_of, wants_in_place
from podfit.controllers.workloads.ownership import Owned, pod_of
from podfit.controllers.workloads.podstate import (
    available_in,
    counts_the_same,
    deletion_rank,
    is_active,
    is_deleting,
    is_ready,
    phase,
    set_condition,
)
from podfit.kit.clock import rfc3339
from podfit.reconcile import DONE, Engine, Requeue, Result

Key = tuple[str, str]
_BURST = 500


class ReplicaSetController:
    name = "replicaset-controller"
    kind: Kind = kind_named("ReplicaSet")

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._engine: Engine[Key] = Engine(self.name, self._reconcile, workers=8, clock=context.clock)
        self._sets = context.cache(self.kind)
        self._owned = Owned(context, self.kind)
        self._in_place = InPlace(context, self._owned)
        self._sets.subscribe(self._set_changed)
        waking = context.informers.waking(POD)
        waking.owned_by(self.kind.kind, self._pod_changed)
        waking.orphans(self._offer)

    async def run(self) -> None:
        await self._engine.run()

    def selector(self, owner: Object) -> LabelSelector:
        return LabelSelector.from_object(owner["spec"]["selector"])

    def _set_changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._engine.add((after["metadata"]["namespace"], after["metadata"]["name"]))
        elif before is not None:
            self._owned.forget(before["metadata"]["uid"])

    def _pod_changed(self, key: Key, before: Object | None, after: Object | None) -> None:
        if before is None or after is None or not counts_the_same(before, after) or self._sizes(key):
            self._engine.add(key)

    def _offer(self, orphan: Object) -> None:
        """Enqueues the sets that may adopt an orphaned pod."""
        for candidate in () if is_deleting(orphan) else self._sets.by("namespace", orphan["metadata"]["namespace"]):
            if self.selector(candidate).matches(orphan["metadata"].get("labels") or {}):
                self._set_changed(None, candidate)

    def _sizes(self, key: Key) -> bool:
        """Whether sizes of pods and the progress of resizes matter to the set: only if it resizes its pods in place."""
        owner = self._sets.get(*key)
        return owner is not None and wants_in_place(owner)

    async def _reconcile(self, key: Key) -> Result:
        owner = self._sets.get(*key)
        if owner is None:
            return DONE
        pods = await self._owned.of(owner, self.selector(owner))
        active = [pod for pod in pods if is_active(pod)]
        failure: ApiError | None = None
        result: Result = DONE
        if not is_deleting(owner):
            try:
                await self._scale(owner, active)
            except ApiError as error:
                failure = error
            if failure is None and wants_in_place(owner):
                active.sort(key=lambda pod: str(pod["metadata"]["name"]))
                result = await self._in_place.advance(owner, owner["spec"]["template"], active, batch_of(owner))
        pods = await self._owned.of(owner, self.selector(owner))
        wait_s = await self._report(owner, pods, failure)
        if failure is not None:
            raise failure
        if wait_s and not (isinstance(result, Requeue) and result.after_s < wait_s):
            return Requeue(wait_s, "a pod becomes available")
        return result

    async def _scale(self, owner: Object, active: list[Object]) -> None:
        surplus = len(active) - int(owner["spec"].get("replicas", 1))
        if surplus < 0:
            await self._create(owner, min(-surplus, _BURST))
        elif surplus > 0:
            await self._delete(owner, active, min(surplus, _BURST))

    async def _create(self, owner: Object, count: int) -> None:
        """Creates pods in growing batches: if the first one is rejected (quota), a thousand others are not even
        tried."""
        template = owner["spec"].get("template") or {}
        body = pod_of(template, self.kind, owner, annotations=marks_of(owner, template))
        batch = 1
        while count > 0:
            size = min(batch, count)
            results = await asyncio.gather(
                *(self._owned.create(owner, body) for _ in range(size)), return_exceptions=True
            )
            for result in results:
                if isinstance(result, BaseException):
                    if isinstance(result, ApiError):
                        self._refused(owner, result)
                    continue
                self._context.recorder.record(
                    owner, "Normal", "SuccessfulCreate", f"Created pod: {result['metadata']['name']}"
                )
            for result in results:
                if isinstance(result, ApiError) and is_namespace_going(result):
                    return
                if isinstance(result, (ApiError, Unreachable)):
                    raise result
                if isinstance(result, BaseException):
                    raise result
            count -= size
            batch *= 2

    def _refused(self, owner: Object, error: ApiError) -> None:
        if not is_namespace_going(error):
            self._context.recorder.record(owner, "Warning", "FailedCreate", f"Error creating: {error}")

    async def _delete(self, owner: Object, active: list[Object], count: int) -> None:
        crowd = Counter((pod.get("spec") or {}).get("nodeName") for pod in active)
        now = self._context.clock.now()
        ranked = sorted(active, key=lambda pod: deletion_rank(pod, crowd[(pod.get("spec") or {}).get("nodeName")], now))
        chosen = ranked[:count]
        await asyncio.gather(*(self._owned.delete(pod) for pod in chosen))
        for pod in chosen:
            self._context.recorder.record(
                owner, "Normal", "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}"
            )

    async def _report(self, owner: Object, pods: list[Object], failure: ApiError | None) -> float:
        """Writes the status if it changed; returns the time until a pod becomes available."""
        now, spec = self._context.clock.now(), owner["spec"]
        active = [pod for pod in pods if is_active(pod)]
        waits = [available_in(pod, int(spec.get("minReadySeconds", 0)), now) for pod in active]
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        counts = {
            "fullyLabeledReplicas": sum(
                labels.items() <= (pod["metadata"].get("labels") or {}).items() for pod in active
            ),
            "readyReplicas": sum(map(is_ready, active)),
            "availableReplicas": sum(wait == 0.0 for wait in waits),
        }
        status: Object = {"replicas": len(active), **{field: count for field, count in counts.items() if count}}
        status.update(self._more_status(owner, pods))
        status["observedGeneration"] = owner["metadata"].get("generation", 0)
        conditions = self._conditions(owner, failure)
        if conditions:
            status["conditions"] = conditions
        if status != (owner.get("status") or {}):
            await self._context.client.update(self.kind, {**owner, "status": status}, "status")
        return min((wait for wait in waits if wait), default=0.0)

    def _more_status(self, owner: Object, pods: list[Object]) -> Object:
        terminating = sum(is_deleting(pod) and phase(pod) not in ("Succeeded", "Failed") for pod in pods)
        return {"terminatingReplicas": terminating + self._owned.deleted_unseen(owner)}

    def _conditions(self, owner: Object, failure: ApiError | None) -> list[Object]:
        old = list((owner.get("status") or {}).get("conditions") or [])
        if failure is None:
            return [existing for existing in old if existing["type"] != "ReplicaFailure"]
        if any(existing["type"] == "ReplicaFailure" and existing["status"] == "True" for existing in old):
            # The message names a different pod each time: writing it again would trigger this very loop, forever.
            return old
        condition = {
            "type": "ReplicaFailure",
            "status": "True",
            "lastTransitionTime": rfc3339(self._context.clock.now()),
            "reason": "FailedCreate",
            "message": str(failure),
        }
        return set_condition(old, condition)


class ReplicationControllerController(ReplicaSetController):
    """The same loop over the older kind, whose selector is a plain map."""

    name = "replication-controller"
    kind = kind_named("ReplicationController")

    def selector(self, owner: Object) -> LabelSelector:
        return LabelSelector.from_object({"matchLabels": owner["spec"].get("selector") or {}})

    def _more_status(self, owner: Object, pods: list[Object]) -> Object:
        return {}
