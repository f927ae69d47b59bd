"""Empties a Terminating namespace: deletes everything in it, reports what is left, and removes the finalizer when
nothing is.

Pods are deleted first and with their grace period, and everything else waits for them: objects that a pod needs (a
NetworkPolicy, a Secret) outlive it. Their deletion events are awaited, not polled. Only if a finalizer keeps content
alive is it checked again after a while.
"""

from __future__ import annotations

import logging

from podfit.api.objects import Object
from podfit.api.registry.kinds import NAMESPACE, POD, Kind
from podfit.api.status import ApiError
from podfit.client.discovery import discover
from podfit.controllers.context import ControllerContext
from podfit.kit.clock import rfc3339
from podfit.reconcile import DONE, Engine, Requeue, Result

log = logging.getLogger(__name__)

FINALIZER = "kubernetes"
_PODS = "pods."


class NamespaceController:
    name = "namespace-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._engine: Engine[str] = Engine(self.name, self._reconcile, workers=4, clock=context.clock)
        self._namespaces = context.cache(NAMESPACE)
        self._namespaces.subscribe(self._namespace_changed)
        context.cache(POD).subscribe(self._pod_changed)

    async def run(self) -> None:
        await self._engine.run()

    def _namespace_changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None and after["metadata"].get("deletionTimestamp"):
            self._engine.add(after["metadata"]["name"])

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None and before is not None:
            namespace = self._namespaces.get("", before["metadata"]["namespace"])
            if namespace is not None and namespace["metadata"].get("deletionTimestamp"):
                self._engine.add(namespace["metadata"]["name"])

    async def _reconcile(self, name: str) -> Result:
        namespace = self._namespaces.get("", name)
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return DONE
        if FINALIZER not in ((namespace.get("spec") or {}).get("finalizers") or []):
            return DONE
        left, failures = await self._empty(name)
        if left or failures:
            await self._report(namespace, left, failures)
            return Requeue(5.0 if set(left) <= {_PODS} else 1.0, "content remains in the namespace")
        finalizers = [word for word in namespace["spec"]["finalizers"] if word != FINALIZER]
        body = {**namespace, "spec": {**namespace["spec"], "finalizers": finalizers}}
        made = await self._context.client.update(NAMESPACE, body, "finalize")
        if finalizers or namespace["metadata"].get("finalizers"):
            # Another finalizer keeps it: reports that its content is gone.
            await self._report(made, {}, [])
        return DONE

    async def _empty(self, name: str) -> tuple[dict[str, list[Object]], list[str]]:
        """Deletes all content; returns the remaining objects by resource, and those that could not be deleted."""
        left: dict[str, list[Object]] = {}
        failures: list[str] = []
        for kind in await self._kinds():
            try:
                await self._context.client.raw("DELETE", kind.path(name), {"propagationPolicy": "Background"})
                remaining = (await self._context.client.list(kind, name)).get("items") or []
            except ApiError as error:
                if error.code not in (404, 405):
                    failures.append(str(error))
                continue
            if remaining:
                # Kubernetes' message has the dot even for resources of the core group.
                left[f"{kind.plural}.{kind.group}"] = remaining
            if _PODS in left:
                break
        return left, failures

    async def _kinds(self) -> list[Kind]:
        found = await discover(self._context.client)
        wanted = [kind for kind in found if kind.namespaced and {"deletecollection", "list"} <= set(kind.verbs)]
        return sorted(wanted, key=lambda kind: ((kind.group, kind.plural) != ("", "pods"), kind.group, kind.plural))

    async def _report(self, namespace: Object, left: dict[str, list[Object]], failures: list[str]) -> None:
        now = rfc3339(self._context.clock.now())
        finalizers: dict[str, int] = {}
        for items in left.values():
            for item in items:
                for word in item["metadata"].get("finalizers") or []:
                    finalizers[word] = finalizers.get(word, 0) + 1
        content = ", ".join(f"{what} has {len(items)} resource instances" for what, items in sorted(left.items()))
        held = ", ".join(f"{word} in {count} resource instances" for word, count in sorted(finalizers.items()))
        conditions = [
            _condition(
                "NamespaceDeletionDiscoveryFailure",
                False,
                "ResourcesDiscovered",
                "All resources successfully discovered",
                now,
            ),
            _condition(
                "NamespaceDeletionGroupVersionParsingFailure",
                False,
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
                now,
            ),
            _condition(
                "NamespaceDeletionContentFailure",
                bool(failures),
                "ContentDeletionFailed" if failures else "ContentDeleted",
                f"Failed to delete all resource types, {len(failures)} remaining: {', '.join(sorted(failures))}"
                if failures
                else "All content successfully deleted, may be waiting on finalization",
                now,
            ),
            _condition(
                "NamespaceContentRemaining",
                bool(left),
                "SomeResourcesRemain" if left else "ContentRemoved",
                f"Some resources are remaining: {content}" if left else "All content successfully removed",
                now,
            ),
            _condition(
                "NamespaceFinalizersRemaining",
                bool(finalizers),
                "SomeFinalizersRemain" if finalizers else "ContentHasNoFinalizers",
                f"Some content in the namespace has finalizers remaining: {held}"
                if finalizers
                else "All content-preserving finalizers finished",
                now,
            ),
        ]
        old = {condition["type"]: condition for condition in (namespace.get("status") or {}).get("conditions") or []}
        for condition in conditions:
            before = old.get(condition["type"])
            if before is not None and before.get("status") == condition["status"]:
                condition["lastTransitionTime"] = before.get("lastTransitionTime", now)
        if [old.get(condition["type"]) for condition in conditions] == conditions:
            return
        status = {**(namespace.get("status") or {}), "conditions": conditions}
        await self._context.client.update(NAMESPACE, {**namespace, "status": status}, "status")


def _condition(type: str, holds: bool, reason: str, message: str, now: str) -> Object:
    return {
        "type": type,
        "status": "True" if holds else "False",
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
