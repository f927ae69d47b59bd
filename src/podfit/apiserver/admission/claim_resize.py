"""PersistentVolumeClaimResize: only a bound claim may grow, and only if its storage class allows expansion."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.quantity import ZERO, Quantity
from podfit.apiserver.admission.base import UPDATE, Attributes, Cluster, Plugin, annotations_of, spec_of
from podfit.apiserver.admission.default_classes import STORAGE_CLASS

_CLASS = "volume.beta.kubernetes.io/storage-class"


class PersistentVolumeClaimResize(Plugin):
    name = "PersistentVolumeClaimResize"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def handles(self, attrs: Attributes) -> bool:
        return attrs.resource == ("", "persistentvolumeclaims") and not attrs.subresource and attrs.operation == UPDATE

    async def validate(self, attrs: Attributes) -> None:
        old = attrs.old or {}
        if _size(attrs.object) <= _size(old):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise attrs.forbid("Only bound persistent volume claims can be expanded")
        if not self._may_grow(_class_name(attrs.object), _class_name(old)):
            raise attrs.forbid(
                "only dynamically provisioned pvc can be resized and "
                "the storageclass that provisions the pvc must support resize"
            )

    def _may_grow(self, name: str, before: str) -> bool:
        if not name or name != before:
            return False
        found = self._cluster.get(STORAGE_CLASS, "", name)
        return bool((found or {}).get("allowVolumeExpansion"))


def _size(claim: Object | None) -> Quantity:
    text = ((spec_of(claim).get("resources") or {}).get("requests") or {}).get("storage")
    return ZERO if text is None else Quantity.parse(text)


def _class_name(claim: Object | None) -> str:
    """The annotation that older clients set takes precedence over the field."""
    return str(annotations_of(claim).get(_CLASS) or spec_of(claim).get("storageClassName") or "")
