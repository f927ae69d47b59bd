"""Fields of pods and templates whose feature gates are off by default: dropped from new ones.

An object that has such a field already, stored by an earlier version, may keep and change it. Strategies call this
before they validate, as in Kubernetes: a dropped field is never invalid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from podfit.api.objects import Object

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_SOURCES = ("clusterTrustBundle", "podCertificate")


def drop_from_template(template: Object | None, stored: Object | None = None) -> None:
    """Drops the fields from a pod template; `stored` is the template in the store, if there is one."""
    if template:
        drop_from_spec(template.get("spec") or {}, stored and stored.get("spec"))


def drop_from_spec(spec: Object, stored: Object | None = None) -> None:
    """Drops the fields from a spec, which may share parts with the stored one: these have no field that it lacks, and
    are not modified."""
    if spec is stored:
        return
    before = stored or {}
    for name in _SOURCES:
        _drop_unused(_projected, name, spec, before)
    if before.get("schedulingGroup") is None and "schedulingGroup" in spec:
        del spec["schedulingGroup"]
    if any(hooks.get("stopSignal") is not None for _, hooks in _lifecycles(before)):
        return
    for container, hooks in _lifecycles(spec):
        if "stopSignal" in hooks:
            del hooks["stopSignal"]
            if not hooks:
                del container["lifecycle"]


def drop_from_status(status: Object, stored: Object) -> None:
    """Drops the fields from a pod's status, which may share parts with the stored one."""
    if status is stored:
        return
    claims = "nodeAllocatableResourceClaimStatuses"
    if claims in status and not stored.get(claims):
        del status[claims]
    if not _has_digests(status) or _has_digests(stored):
        return
    for field in _STATUSES:
        if status.get(field):
            status[field] = [_without_digests(each) for each in status[field]]


def _drop_unused(parts: Callable[[Object], Iterator[Object]], name: str, spec: Object, stored: Object) -> None:
    if all(part.get(name) is None for part in parts(stored)):
        for part in parts(spec):
            if name in part:
                del part[name]


def _projected(spec: Object) -> Iterator[Object]:
    for volume in spec.get("volumes") or ():
        yield from (volume.get("projected") or {}).get("sources") or ()


def _lifecycles(spec: Object) -> Iterator[tuple[Object, Object]]:
    for field in _CONTAINERS:
        for container in spec.get(field) or ():
            if container.get("lifecycle") is not None:
                yield container, container["lifecycle"]


def _has_digests(status: Object) -> bool:
    for field in _STATUSES:
        for each in status.get(field) or ():
            for mount in each.get("volumeMounts") or ():
                if "volumeStatus" in mount:
                    return True
    return False


def _without_digests(status: Object) -> Object:
    if not status.get("volumeMounts"):
        return status
    bare = [{key: value for key, value in mount.items() if key != "volumeStatus"} for mount in status["volumeMounts"]]
    return {**status, "volumeMounts": bare}
