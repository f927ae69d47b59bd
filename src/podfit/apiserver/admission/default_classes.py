"""DefaultStorageClass and DefaultIngressClass: claims and Ingresses without a class get the default class.

If several classes are marked as the default, the newest is used.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind, kind_named
from podfit.apiserver.admission.base import CREATE, Attributes, Cluster, Plugin, annotations_of

STORAGE_CLASS, INGRESS_CLASS = kind_named("StorageClass"), kind_named("IngressClass")
_STORAGE = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_INGRESS = ("ingressclass.kubernetes.io/is-default-class",)


class _DefaultClass(Plugin):
    resource: tuple[str, str]
    classes: Kind
    marks: tuple[str, ...]
    """The annotations of a class that mark it as the default; one is sufficient."""
    field: str
    """The field of the spec that names the class."""
    annotation: str
    """The annotation with which older clients name the class."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def handles(self, attrs: Attributes) -> bool:
        return attrs.resource == self.resource and not attrs.subresource and attrs.operation == CREATE

    async def admit(self, attrs: Attributes) -> None:
        assert attrs.object is not None
        spec = attrs.object.get("spec") or {}
        if spec.get(self.field) is not None or self.annotation in annotations_of(attrs.object):
            return
        name = self._default()
        if name is not None:
            attrs.object["spec"] = {**spec, self.field: name}

    def _default(self) -> str | None:
        marked = [candidate for candidate in self._cluster.list(self.classes) if self._is_default(candidate)]
        marked.sort(key=lambda candidate: str(candidate["metadata"]["name"]))
        newest = max(marked, key=lambda candidate: str(candidate["metadata"].get("creationTimestamp")), default=None)
        return None if newest is None else str(newest["metadata"]["name"])

    def _is_default(self, candidate: Object) -> bool:
        annotations = annotations_of(candidate)
        return any(annotations.get(mark) == "true" for mark in self.marks)


class DefaultStorageClass(_DefaultClass):
    name = "DefaultStorageClass"
    resource, classes, marks = ("", "persistentvolumeclaims"), STORAGE_CLASS, _STORAGE
    field, annotation = "storageClassName", "volume.beta.kubernetes.io/storage-class"


class DefaultIngressClass(_DefaultClass):
    name = "DefaultIngressClass"
    resource, classes, marks = ("networking.k8s.io", "ingresses"), INGRESS_CLASS, _INGRESS
    field, annotation = "ingressClassName", "kubernetes.io/ingress.class"
