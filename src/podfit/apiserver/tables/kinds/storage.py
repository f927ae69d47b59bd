"""Rows of storage.k8s.io."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.apiserver.tables.columns import AGE, NAME, NONE, UNSET, Column, Layout, age, name, spec, status

_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _storage_class(obj: Object) -> list[Any]:
    notes = obj["metadata"].get("annotations") or {}
    marked = " (default)" if any(notes.get(key) == "true" for key in _DEFAULT) else ""
    return [
        name(obj) + marked,
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        age(obj),
    ]


def _attributes_class(obj: Object) -> list[Any]:
    return [name(obj), obj.get("driverName", ""), age(obj)]


def _driver(obj: Object) -> list[Any]:
    row, tokens = spec(obj), spec(obj).get("tokenRequests")
    return [
        name(obj),
        row.get("attachRequired", True),
        bool(row.get("podInfoOnMount")),
        bool(row.get("storageCapacity")),
        UNSET if tokens is None else ",".join(token.get("audience", "") for token in tokens),
        bool(row.get("requiresRepublish")),
        ",".join(row.get("volumeLifecycleModes") or ()) or NONE,
        age(obj),
    ]


def _node(obj: Object) -> list[Any]:
    return [name(obj), len(spec(obj).get("drivers") or ()), age(obj)]


def _attachment(obj: Object) -> list[Any]:
    row = spec(obj)
    volume = (row.get("source") or {}).get("persistentVolumeName") or ""
    attached = bool(status(obj).get("attached"))
    return [name(obj), row.get("attacher", ""), volume, row.get("nodeName", ""), attached, age(obj)]


LAYOUTS: dict[tuple[str, str], Layout] = {
    ("storage.k8s.io", "storageclasses"): Layout(
        (
            NAME,
            Column("Provisioner", description="Who provisions volumes of the class."),
            Column("ReclaimPolicy", description="What becomes of a volume when its claim is deleted."),
            Column("VolumeBindingMode", description="When a volume is provisioned and bound."),
            Column("AllowVolumeExpansion", description="Whether volumes can grow."),
            AGE,
        ),
        _storage_class,
    ),
    ("storage.k8s.io", "volumeattributesclasses"): Layout(
        (NAME, Column("DriverName", description="The driver that applies the attributes."), AGE), _attributes_class
    ),
    ("storage.k8s.io", "csidrivers"): Layout(
        (
            NAME,
            Column("AttachRequired", "boolean", "Whether volumes are attached before they are mounted."),
            Column("PodInfoOnMount", "boolean", "Whether the driver is given the pod when it mounts."),
            Column("StorageCapacity", "boolean", "Whether the scheduler considers the capacity it reports."),
            Column("TokenRequests", description="Audiences of the tokens the driver is given."),
            Column("RequiresRepublish", "boolean", "Whether volumes are published again from time to time."),
            Column("Modes", description="Kinds of volumes the driver supports."),
            AGE,
        ),
        _driver,
    ),
    ("storage.k8s.io", "csinodes"): Layout(
        (NAME, Column("Drivers", "integer", "Number of drivers registered on the node."), AGE), _node
    ),
    ("storage.k8s.io", "volumeattachments"): Layout(
        (
            NAME,
            Column("Attacher", "string", "The driver that attaches the volume.", 0, "name"),
            Column("PV", description="The volume."),
            Column("Node", description="The node the volume is attached to."),
            Column("Attached", "boolean", "Whether the volume is attached."),
            AGE,
        ),
        _attachment,
    ),
}
