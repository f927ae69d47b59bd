"""Removes pods that will never finish: bound to a node that is gone or out of service, deleted before they were bound,
or finished and in excess of the limit."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import NODE, POD
from podfit.api.status import ApiError
from podfit.controllers.context import ControllerContext
from podfit.kit.clock import rfc3339
from podfit.reconcile import DONE, Engine, Requeue, Result

_QUARANTINE_S = 40.0
"""How long a node must be missing before its pods are deleted: it may be about to register again."""
_KEPT_FINISHED = 12500
_CHECK_EVERY_S = 20.0
_FINISHED = ("Succeeded", "Failed")
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_GONE = ("DeletionByPodGC", "PodGC: node no longer exists")
"""Reason and message of a pod whose node is gone."""


def is_out_of_service(node: Object) -> bool:
    """Whether the node is marked as out of service, and is not ready."""
    taints = (node.get("spec") or {}).get("taints") or ()
    if all(taint["key"] != _OUT_OF_SERVICE for taint in taints):
        return False
    conditions = (node.get("status") or {}).get("conditions") or ()
    return all(condition["type"] != "Ready" or condition["status"] != "True" for condition in conditions)


class PodGarbageController:
    name = "pod-garbage-collector"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._nodes, self._pods = context.cache(NODE), context.cache(POD)
        self._missing: dict[str, float] = {}
        self._engine: Engine[str] = Engine(self.name, self._reconcile, workers=1, clock=context.clock)
        self._nodes.subscribe(self._node_changed)
        self._pods.subscribe(self._pod_changed)

    async def run(self) -> None:
        self._engine.add("finished")
        for node in {(pod.get("spec") or {}).get("nodeName") for pod in self._pods}:
            if node and self._nodes.get("", node) is None:
                self._engine.add(f"node/{node}")
        await self._engine.run()

    def _node_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None:
            if before is not None:
                self._engine.add(f"node/{before['metadata']['name']}")
        elif is_out_of_service(after):
            self._engine.add(f"left/{after['metadata']['name']}")

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
        if what == "left":
            return await self._left(rest)
        if what == "unbound":
            namespace, _, name = rest.partition("/")
            pod = self._pods.get(namespace, name)
            if pod is not None and not (pod.get("spec") or {}).get("nodeName"):
                # No node will report how it terminated, and a finalizer may wait for that.
                await self._fail(pod)
                await self._remove(pod)
            return DONE
        await self._surplus()
        return Requeue(_CHECK_EVERY_S, "finished pods are counted periodically")

    async def _orphans(self, node: str) -> Result:
        if self._nodes.get("", node) is not None:
            self._missing.pop(node, None)
            return DONE
        pods = self._pods.by("node", node)
        if not pods:
            self._missing.pop(node, None)
            return DONE
        now = self._context.clock.monotonic()
        left = _QUARANTINE_S - (now - self._missing.setdefault(node, now))
        if left > 0:
            return Requeue(left, "the node may come back")
        if await self._context.client.find(NODE, "", node) is not None:
            return DONE
        for pod in pods:
            await self._fail(pod, _GONE)
            await self._remove(pod)
        return DONE

    async def _left(self, name: str) -> Result:
        """Removes terminating pods from a node that is out of service."""
        node = self._nodes.get("", name)
        if node is not None and is_out_of_service(node):
            for pod in self._pods.by("node", name):
                if pod["metadata"].get("deletionTimestamp"):
                    await self._fail(pod)
                    await self._remove(pod)
        return DONE

    async def _surplus(self) -> None:
        finished = [pod for pod in self._pods if (pod.get("status") or {}).get("phase") in _FINISHED]
        finished.sort(key=_worth)
        for pod in finished[: max(0, len(finished) - _KEPT_FINISHED)]:
            await self._remove(pod)

    async def _fail(self, pod: Object, disrupted: tuple[str, str] | None = None) -> None:
        """Sets the pod's phase to Failed. `disrupted`: reason and message, if it is a disruption."""
        if (pod.get("status") or {}).get("phase") in _FINISHED:
            return
        status: Object = {"phase": "Failed"}
        if disrupted is not None:
            condition = {
                "type": "DisruptionTarget",
                "observedGeneration": pod["metadata"].get("generation"),
                "status": "True",
                "reason": disrupted[0],
                "message": disrupted[1],
                "lastTransitionTime": rfc3339(self._context.clock.now()),
            }
            status["conditions"] = [condition]
        change = {"status": status}
        meta = pod["metadata"]
        try:
            await self._context.client.patch(
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
            await self._context.client.delete(POD, meta["namespace"], meta["name"], options)
        except ApiError as error:
            if error.code not in (404, 409):
                raise


def _worth(pod: Object) -> tuple[bool, str, str]:
    """The order of deletion: evicted pods first, because no controller waits for them, then the oldest."""
    status, meta = pod.get("status") or {}, pod["metadata"]
    evicted = (status.get("phase"), status.get("reason")) == ("Failed", "Evicted")
    return not evicted, str(meta.get("creationTimestamp")), str(meta["name"])
