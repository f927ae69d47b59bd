"""Evicts pods that do not tolerate a NoExecute taint of their node, or whose toleration has expired."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.pods.placement import tolerates
from podfit.api.registry.kinds import NODE, POD
from podfit.api.status import ApiError
from podfit.client.rest import STRATEGIC
from podfit.controllers.context import ControllerContext
from podfit.kit.clock import parse_rfc3339, rfc3339
from podfit.reconcile import DONE, Engine, Requeue, Result

Key = tuple[str, str]


class TaintEvictionController:
    name = "taint-eviction-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._nodes, self._pods = context.cache(NODE), context.cache(POD)
        self._since: dict[Key, float] = {}
        """When a pod was first seen to tolerate its node's taints only for a time, because taints need not have a
        time."""
        self._evicting: set[Key] = set()
        """Pods to be deleted when their toleration expires."""
        self._tainted: set[str] = set()
        """Nodes with NoExecute taints."""
        self._engine: Engine[Key] = Engine(self.name, self._reconcile, clock=context.clock)
        self._nodes.subscribe(self._node_changed)
        self._pods.subscribe(self._pod_changed)

    async def run(self) -> None:
        await self._engine.run()

    def _node_changed(self, before: Object | None, after: Object | None) -> None:
        name, taints = (after or before or {})["metadata"]["name"], no_execute(after)
        if taints:
            self._tainted.add(name)
        else:
            self._tainted.discard(name)
        if after is not None and no_execute(before) != taints:
            for pod in self._pods.by("node", name):
                self._engine.add((pod["metadata"]["namespace"], pod["metadata"]["name"]))

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None:
            if before is not None:
                key = (before["metadata"]["namespace"], before["metadata"]["name"])
                self._since.pop(key, None)
                self._spare(key, before)
            return
        if (after.get("spec") or {}).get("nodeName") in self._tainted:
            self._engine.add((after["metadata"]["namespace"], after["metadata"]["name"]))

    async def _reconcile(self, key: Key) -> Result:
        pod = self._pods.get(*key)
        node = self._nodes.get("", ((pod or {}).get("spec") or {}).get("nodeName") or "")
        if pod is None or node is None or pod["metadata"].get("deletionTimestamp"):
            return DONE
        now = self._context.clock.now()
        since = self._since.setdefault(key, now)
        due = eviction_time(no_execute(node), pod["spec"].get("tolerations") or [], since)
        if due is None:
            self._since.pop(key, None)
            self._spare(key, pod)
            return DONE
        left = due - now
        if left > 0:
            self._evicting.add(key)
            return Requeue(left, "the pod tolerates the taint until then")
        self._evicting.discard(key)
        await self._evict(pod)
        return DONE

    def _spare(self, key: Key, pod: Object) -> None:
        """Cancels the deletion of a pod that now tolerates the taints or is already gone."""
        if key in self._evicting:
            self._evicting.discard(key)
            message = f"Cancelling deletion of Pod {key[0]}/{key[1]}"
            self._context.recorder.record(pod, "Normal", "TaintManagerEviction", message)

    async def _evict(self, pod: Object) -> None:
        meta = pod["metadata"]
        self._context.recorder.record(
            pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {meta['namespace']}/{meta['name']}"
        )
        condition = {
            "type": "DisruptionTarget",
            "observedGeneration": meta.get("generation"),
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": rfc3339(self._context.clock.now()),
        }
        change = {"status": {"conditions": [condition]}}
        try:
            await self._context.client.patch(
                POD, meta["namespace"], meta["name"], change, subresource="status", content_type=STRATEGIC
            )
            await self._context.client.delete(
                POD, meta["namespace"], meta["name"], {"preconditions": {"uid": meta["uid"]}}
            )
        except ApiError as error:
            if error.code not in (404, 409):
                raise


def no_execute(node: Object | None) -> list[Object]:
    taints = ((node or {}).get("spec") or {}).get("taints")
    return [taint for taint in taints if taint.get("effect") == "NoExecute"] if taints else []


def eviction_time(taints: list[Object], tolerations: list[Object], seen: float) -> float | None:
    """The time at which the pod must be deleted; None for never. Pure.

    At once for a taint that nothing tolerates. Otherwise the shortest of the matching tolerations counts from the
    taint's time, or from when it was first seen if the taint has none.
    """
    due: float | None = None
    for taint in taints:
        using = [toleration for toleration in tolerations if tolerates(toleration, taint)]
        if not using:
            return seen
        seconds = [
            toleration["tolerationSeconds"] for toleration in using if toleration.get("tolerationSeconds") is not None
        ]
        if seconds:
            since = parse_rfc3339(taint["timeAdded"]) if taint.get("timeAdded") else seen
            at = since + max(0, min(seconds))
            due = at if due is None else min(due, at)
    return due
