"""LimitRanger: sets default requests and limits, and enforces a namespace's minimum, maximum and ratio.

Runs on creation of pods and claims, on resizes, and on updates of claims. The checks themselves are in `limit_checks`.
"""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.quantity import canonical
from podfit.api.registry.kinds import kind_named
from podfit.apiserver.admission.base import CREATE, UPDATE, Attributes, Cluster, Plugin, meta_of, spec_of
from podfit.apiserver.admission.limits.limit_checks import claim_violations, pod_violations

LIMIT_RANGE = kind_named("LimitRange")
ANNOTATION = "kubernetes.io/limit-ranger"


class LimitRanger(Plugin):
    name = "LimitRanger"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def handles(self, attrs: Attributes) -> bool:
        if attrs.resource == ("", "pods"):
            return (attrs.operation, attrs.subresource) in ((CREATE, ""), (UPDATE, ""), (UPDATE, "resize"))
        if attrs.resource == ("", "persistentvolumeclaims"):
            return attrs.operation in (CREATE, UPDATE) and not attrs.subresource
        return False

    async def admit(self, attrs: Attributes) -> None:
        if attrs.object is None or attrs.kind.plural != "pods" or _passes(attrs) or _going_away(attrs):
            return
        for limit_range in self._cluster.list(LIMIT_RANGE, attrs.namespace):
            apply_defaults(attrs.object, limit_range)

    async def validate(self, attrs: Attributes) -> None:
        if attrs.object is None or _passes(attrs) or _going_away(attrs):
            return
        violations = pod_violations if attrs.kind.plural == "pods" else claim_violations
        for limit_range in self._cluster.list(LIMIT_RANGE, attrs.namespace):
            found = violations(attrs.object, spec_of(limit_range).get("limits") or ())
            if found:
                distinct = list(dict.fromkeys(found))
                raise attrs.forbid(distinct[0] if len(distinct) == 1 else "[" + ", ".join(distinct) + "]")


def _passes(attrs: Attributes) -> bool:
    """Whether the write is an update of a pod, but not a resize to which the dialect applies limits."""
    if attrs.operation != UPDATE or attrs.subresource or attrs.kind.plural != "pods":
        return False
    return not attrs.resizes or attrs.dialect is None or not attrs.dialect.limit_ranges


def _going_away(attrs: Attributes) -> bool:
    return attrs.operation == UPDATE and bool(meta_of(attrs.old).get("deletionTimestamp"))


def apply_defaults(pod: Object, limit_range: Object) -> None:
    """Sets requests and limits that containers omit, and records them in an annotation with Kubernetes' text."""
    limits, requests = _container_defaults(limit_range)
    if not limits and not requests:
        return
    spec = dict(spec_of(pod))
    notes: list[str] = []
    for field, words in (("containers", "container"), ("initContainers", "init container")):
        if spec.get(field):
            spec[field] = [_filled(container, limits, requests, words, notes) for container in spec[field]]
    if notes:
        note = {ANNOTATION: "LimitRanger plugin set: " + "; ".join(notes)}
        meta = meta_of(pod)
        pod["spec"] = spec
        pod["metadata"] = {**meta, "annotations": {**(meta.get("annotations") or {}), **note}}


def _container_defaults(limit_range: Object) -> tuple[dict[str, str], dict[str, str]]:
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    for item in spec_of(limit_range).get("limits") or ():
        if item.get("type") == "Container":
            limits.update(item.get("default") or {})
            requests.update(item.get("defaultRequest") or {})
    return limits, requests


def _filled(
    container: dict[str, Any], limits: dict[str, str], requests: dict[str, str], words: str, notes: list[str]
) -> dict[str, Any]:
    """A copy of the container with defaults. The argument is not modified, because the stored pod may share it."""
    resources = dict(container.get("resources") or {})
    before = len(notes)
    for field, defaults, noun in (("requests", requests, "request"), ("limits", limits, "limit")):
        given = resources.get(field) or {}
        missing = sorted(name for name in defaults if name not in given)
        if missing:
            resources[field] = {**given, **{name: canonical(defaults[name]) for name in missing}}
            notes.append(f"{', '.join(missing)} {noun} for {words} {container.get('name', '')}")
    return container if len(notes) == before else {**container, "resources": resources}
