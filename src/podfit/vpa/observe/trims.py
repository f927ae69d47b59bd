"""Reduces objects that clusters have by the ten thousand to the fields that the autoscaler reads."""

from __future__ import annotations

from sys import intern
from typing import Any

from podfit.api.objects import Object
from podfit.vpa.model.objects.programs import RUN, digest
from podfit.vpa.runtimes.heaps import HEAP, heap_of

_META = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
)
_CONTAINER = ("name", "resources", "resizePolicy", "restartPolicy")
_SPEC = (
    "nodeName",
    "nodeSelector",
    "affinity",
    "tolerations",
    "restartPolicy",
    "schedulingGates",
    "overhead",
    "resources",
    "priority",
)
_STATUS = ("phase", "conditions", "startTime", "resize", "allocatedResources", "resources", "qosClass")
_CONTAINER_STATUS = ("name", "state", "lastState", "restartCount", "resources", "allocatedResources", "ready")


def pod(obj: Object) -> Object:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    kept_spec = _only(spec, _SPEC)
    for field in ("containers", "initContainers"):
        if spec.get(field):
            kept_spec[field] = [_only(container, _CONTAINER) for container in spec[field]]
    kept_status = _only(status, _STATUS)
    for field in ("containerStatuses", "initContainerStatuses"):
        if status.get(field):
            kept_status[field] = [_only(entry, _CONTAINER_STATUS) for entry in status[field]]
    return {**_head(obj), "spec": kept_spec, "status": kept_status}


def pod_with_programs(obj: Object) -> Object:
    """A pod with each container's program: its image, a digest of command and arguments, and its configured heap."""
    kept = pod(obj)
    for at, container in enumerate(kept["spec"].get("containers") or ()):
        whole = obj["spec"]["containers"][at]
        if "image" in whole:
            container["image"], container[RUN] = intern(whole["image"] or ""), digest(whole)
        if (whole.get("env") or whole.get("command") or whole.get("args")) and (heap := heap_of(whole)) is not None:
            container[HEAP] = heap
    return kept


def workload(obj: Object) -> Object:
    """A controller with its selector, its number of replicas, and the labels of its template."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    kept = _only(spec, ("selector", "replicas"))
    if obj.get("kind") == "CronJob":
        template = ((spec.get("jobTemplate") or {}).get("spec") or {}).get("template") or {}
        kept["jobTemplate"] = {"spec": {"template": _labels(template)}}
    elif spec.get("template"):
        kept["template"] = _labels(spec["template"])
    return {**_head(obj), "spec": kept, "status": _only(status, ("numberReady", "replicas"))}


def _labels(template: Object) -> Object:
    return {"metadata": {"labels": (template.get("metadata") or {}).get("labels") or {}}}


def _head(obj: Object) -> Object:
    return {
        "apiVersion": obj.get("apiVersion", ""),
        "kind": obj.get("kind", ""),
        "metadata": _only(obj["metadata"], _META),
    }


def _only(holder: Object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: holder[name] for name in names if name in holder}
