"""Removes pods that nobody will ever finish: bound to a node that is gone, deleted before they were bound, or finished
and more of them than are worth keeping."""

from __future__ import annotations

from podfit.api.kinds import NODE, POD
from podfit.api.status import ApiError, Object
from podfit.controllers.world import World
from podfit.kit.clock import rfc3339
from podfit.reconcile import DONE, Again, Engine, Result

_QUARANTINE_S = 40.0
"""How long a node must be missing before its pods are given up: it may be about to register again."""
_KEPT_FINISHED = 12500
_LOOK_EVERY_S = 20.0
_FINISHED = ("Succeeded", "Failed")


class PodGarbageController:
    name = "pod-garbage-collector"

    def __init__(self, world: World) -> None:
        self._world = world
        self._nodes, self._pods = world.cache(NODE), world.cache(POD)
        self._missing: dict[str, float] = {}
        self._engine: Engine[str] = Engine(self.name, self._reconcile, workers=1, clock=world.clock)
        self._nodes.subscribe(self._node_changed)
        self._pods.subscribe(self._pod_changed)

    async def run(self) -> None:
        self._engine.add("finished")
        for node in {(pod.get("spec") or {}).get("nodeName") for pod in self._pods}:
            if node and self._nodes.get("", node) is None:
                self._engine.add(f"node/{node}")
        await self._engine.run()

    def _node_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None and before is not None:
            self._engine.add(f"node/{before['metadata']['name']}")

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None:
            return
        node = (after.get("spec") or {}).get("nodeName")
        if not node and after["metadata"].get("deletionTimestamp"):
            self._engine.add(f"unbound/{after['metadata']['namespace']}/{after['metadata']['name']}")
        elif node and self._nodes.get("", node) is None and self._nodes.ready.is_set():
            self._engine.add(f"node/{node}")

    async def _reconcile(self, key: str) -> Result:
        what, _, rest = key.partition("/")
        if what == "node":
            return await self._orphans(rest)
        if what == "unbound":
            namespace, _, name = rest.partition("/")
            pod = self._pods.get(namespace, name)
            if pod is not None and not (pod.get("spec") or {}).get("nodeName"):
                await self._remove(pod)
            return DONE
        await self._surplus()
        return Again(_LOOK_EVERY_S, "finished pods are counted from time to time")

    async def _orphans(self, node: str) -> Result:
        if self._nodes.get("", node) is not None:
            self._missing.pop(node, None)
            return DONE
        pods = self._pods.by("node", node)
        if not pods:
            self._missing.pop(node, None)
            return DONE
        now = self._world.clock.monotonic()
        left = _QUARANTINE_S - (now - self._missing.setdefault(node, now))
        if left > 0:
            return Again(left, "the node may come back")
        if await self._world.client.find(NODE, "", node) is not None:
            return DONE
        for pod in pods:
            await self._fail(pod)
            await self._remove(pod)
        return DONE

    async def _surplus(self) -> None:
        finished = [pod for pod in self._pods if (pod.get("status") or {}).get("phase") in _FINISHED]
        finished.sort(key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
        for pod in finished[: max(0, len(finished) - _KEPT_FINISHED)]:
            await self._remove(pod)

    async def _fail(self, pod: Object) -> None:
        if (pod.get("status") or {}).get("phase") in _FINISHED:
            return
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": rfc3339(self._world.clock.now()),
        }
        change = {"status": {"phase": "Failed", "conditions": [condition]}}
        meta = pod["metadata"]
        try:
            await self._world.client.patch(
                POD,
                meta["namespace"],
                meta["name"],
                change,
                subresource="status",
                content_type="application/strategic-merge-patch+json",
            )
        except ApiError as error:
            if error.code != 404:
                raise

    async def _remove(self, pod: Object) -> None:
        meta = pod["metadata"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        try:
            await self._world.client.delete(POD, meta["namespace"], meta["name"], options)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
