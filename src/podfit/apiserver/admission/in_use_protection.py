"""StorageObjectInUseProtection: finalizers keep new volumes, claims and attribute classes while they are in use.

The plugin sets the finalizer; the controllers of `podfit.controllers.protection` remove it.
"""

from __future__ import annotations

from podfit.apiserver.admission.base import CREATE, Attributes, Plugin

FINALIZERS = {
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}
"""By resource."""


class StorageObjectInUseProtection(Plugin):
    name = "StorageObjectInUseProtection"

    def handles(self, attrs: Attributes) -> bool:
        return attrs.resource in FINALIZERS and not attrs.subresource and attrs.operation == CREATE

    async def admit(self, attrs: Attributes) -> None:
        assert attrs.object is not None
        meta, finalizer = attrs.object["metadata"], FINALIZERS[attrs.resource]
        given = meta.get("finalizers") or []
        if finalizer not in given:
            meta["finalizers"] = [*given, finalizer]
