"""Protects a PersistentVolumeClaim from deletion while a pod on a node mounts it.

The claims of a namespace are processed together, so that its pods are listed only once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, kind_named
from podfit.controllers.context import ControllerContext
from podfit.controllers.protection.finalizers import Finalizer
from podfit.reconcile import DONE, Engine, Result

CLAIM = kind_named("PersistentVolumeClaim")
_FINALIZER = Finalizer(CLAIM, "kubernetes.io/pvc-protection")


class ClaimProtectionController:
    name = "persistentvolumeclaim-protection-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._claims, self._pods = context.cache(CLAIM), context.cache(POD)
        self._waiting: dict[str, set[str]] = {}
        """The claims to process, by namespace."""
        self._engine: Engine[str] = Engine(self.name, self._reconcile, clock=context.clock)
        self._claims.subscribe(self._claim_changed)
        self._pods.subscribe(self._pod_changed)

    async def run(self) -> None:
        await self._engine.run()

    def _claim_changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None and (_FINALIZER.held(after) or _FINALIZER.lacking(after)):
            meta = after["metadata"]
            self._waiting.setdefault(meta["namespace"], set()).add(meta["name"])
            self._engine.add(meta["namespace"])

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        if before is not None and (after is None or is_shut_down(after)):
            namespace = before["metadata"]["namespace"]
            if namespace in self._waiting:
                self._engine.add(namespace)

    async def _reconcile(self, namespace: str) -> Result:
        pods: list[Object] | None = None
        for name in sorted(self._waiting.get(namespace, ())):
            claim = self._claims.get(namespace, name)
            if claim is not None and _FINALIZER.held(claim):
                if used_by(claim, self._pods.by("namespace", namespace)):
                    continue
                if pods is None:
                    # Reads the server, because the cache may not have the newest pod yet.
                    pods = (await self._client.list(POD, namespace)).get("items") or []
                if used_by(claim, pods):
                    continue
                await _FINALIZER.remove(self._client, claim)
            elif claim is not None and _FINALIZER.lacking(claim):
                await _FINALIZER.add(self._client, claim)
            self._forget(namespace, name)
        return DONE

    def _forget(self, namespace: str, name: str) -> None:
        self._waiting[namespace].discard(name)
        if not self._waiting[namespace]:
            del self._waiting[namespace]


def used_by(claim: Object, pods: Iterable[Object]) -> bool:
    """Whether one of the pods, which are all of the claim's namespace, is on a node and mounts the claim."""
    return any(_mounts(pod, claim) for pod in pods if (pod.get("spec") or {}).get("nodeName"))


def _mounts(pod: Object, claim: Object) -> bool:
    name = claim["metadata"]["name"]
    for volume in pod["spec"].get("volumes") or ():
        if (volume.get("persistentVolumeClaim") or {}).get("claimName") == name:
            return True
        generic = volume.get("ephemeral") is not None and name == f"{pod['metadata']['name']}-{volume['name']}"
        if generic and not is_shut_down(pod) and _is_made_for(claim, pod):
            return True
    return False


def _is_made_for(claim: Object, pod: Object) -> bool:
    owners = claim["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner["uid"] == pod["metadata"]["uid"] for owner in owners)


def is_shut_down(pod: Object) -> bool:
    """Whether the node has stopped the pod, which is only waiting for finalizers."""
    meta = pod["metadata"]
    return bool(meta.get("deletionTimestamp")) and meta.get("deletionGracePeriodSeconds") == 0
