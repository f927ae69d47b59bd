"""Evicts pods that do not tolerate a NoExecute taint of their node, when their toleration runs out."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.pods.placement import tolerates
from podfit.api.registry.kinds import NODE, POD
from podfit.api.status import ApiError
from podfit.client.rest import STRATEGIC
from podfit.controllers.world import World
from podfit.kit.clock import parse_rfc3339, rfc3339
from podfit.reconcile import DONE, Engine, Requeue, Result

Key = tuple[str, str]


class TaintEvictionController:
    name = "taint-eviction-controller"

    def __init__(self, world: World) -> None:
        self._world = world
        self._nodes, self._pods = world.cache(NODE), world.cache(POD)
        self._since: dict[Key, float] = {}
        """When a pod was first seen to tolerate its node's taints only for a time: taints need not say their own."""
        self._doomed: set[Key] = set()
        """Pods that are to go when their toleration runs out."""
        self._tainted: set[str] = set()
        """The nodes that not every pod may stay on."""
        self._engine: Engine[Key] = Engine(self.name, self._reconcile, clock=world.clock)
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
        now = self._world.clock.now()
        since = self._since.setdefault(key, now)
        due = eviction_time(no_execute(node), pod["spec"].get("tolerations") or [], since)
        if due is None:
            self._since.pop(key, None)
            self._spare(key, pod)
            return DONE
        left = due - now
        if left > 0:
            self._doomed.add(key)
            return Requeue(left, "the pod tolerates the taint until then")
        self._doomed.discard(key)
        await self._evict(pod)
        return DONE

    def _spare(self, key: Key, pod: Object) -> None:
        """It need not go any more, or went by itself."""
        if key in self._doomed:
            self._doomed.discard(key)
            message = f"Cancelling deletion of Pod {key[0]}/{key[1]}"
            self._world.recorder.record(pod, "Normal", "TaintManagerEviction", message)

    async def _evict(self, pod: Object) -> None:
        meta = pod["metadata"]
        self._world.recorder.record(
            pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {meta['namespace']}/{meta['name']}"
        )
        condition = {
            "type": "DisruptionTarget",
            "observedGeneration": meta.get("generation"),
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": rfc3339(self._world.clock.now()),
        }
        change = {"status": {"conditions": [condition]}}
        try:
            await self._world.client.patch(
                POD, meta["namespace"], meta["name"], change, subresource="status", content_type=STRATEGIC
            )
            await self._world.client.delete(
                POD, meta["namespace"], meta["name"], {"preconditions": {"uid": meta["uid"]}}
            )
        except ApiError as error:
            if error.code not in (404, 409):
                raise


def no_execute(node: Object | None) -> list[Object]:
    taints = ((node or {}).get("spec") or {}).get("taints")
    return [taint for taint in taints if taint.get("effect") == "NoExecute"] if taints else []


def eviction_time(taints: list[Object], tolerations: list[Object], seen: float) -> float | None:
    """When the pod must go: None for never. Pure.

    A taint that nothing tolerates: at once. Otherwise the shortest toleration of all used ones counts from the taint,
    or from when it was first seen where it does not say.
    """
    due: float | None = None
    for taint in taints:
        using = [toleration for toleration in tolerations if tolerates(toleration, taint)]
        if not using:
            return seen
        seconds = [one["tolerationSeconds"] for one in using if one.get("tolerationSeconds") is not None]
        if seconds:
            since = parse_rfc3339(taint["timeAdded"]) if taint.get("timeAdded") else seen
            at = since + max(0, min(seconds))
            due = at if due is None else min(due, at)
    return due
