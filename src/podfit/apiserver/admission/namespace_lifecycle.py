"""NamespaceLifecycle: rejects writes in namespaces that do not exist, and creations in those being deleted."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import NAMESPACE
from podfit.api.status import not_found
from podfit.apiserver.admission.base import CONNECT, CREATE, DELETE, Attributes, Cluster, Plugin

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})


class NamespaceLifecycle(Plugin):
    name = "NamespaceLifecycle"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def handles(self, attrs: Attributes) -> bool:
        if attrs.operation == CONNECT:
            return False
        if attrs.kind.plural == "namespaces" and attrs.kind.group == "":
            return attrs.operation == DELETE
        # Access reviews are answered for namespaces that do not exist, too.
        return attrs.kind.namespaced and attrs.operation != DELETE and attrs.kind.kind != "LocalSubjectAccessReview"

    async def admit(self, attrs: Attributes) -> None:
        if attrs.operation == DELETE:
            if attrs.name in IMMORTAL:
                raise attrs.forbid("this namespace may not be deleted")
            return
        namespace = self._cluster.get(NAMESPACE, "", attrs.namespace)
        if namespace is None:
            raise not_found("namespaces", attrs.namespace)
        if attrs.operation == CREATE and (namespace.get("status") or {}).get("phase") == "Terminating":
            raise attrs.forbid(
                f"unable to create new content in namespace {attrs.namespace} because it is being terminated",
                [_terminating(attrs.namespace)],
            )


def _terminating(namespace: str) -> Object:
    return {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
