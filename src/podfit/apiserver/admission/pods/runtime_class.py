"""RuntimeClass: copies the overhead and the scheduling constraints of a pod's runtime into the pod at creation."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.pods.resources import amounts
from podfit.api.registry.kinds import kind_named
from podfit.apiserver.admission.base import CREATE, Attributes, Cluster, Plugin, spec_of

RUNTIME_CLASS = kind_named("RuntimeClass")
MACHINES = "vm"
"""The class of pods with a virtual machine that do not name one."""
_MISMATCH = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


class RuntimeClass(Plugin):
    name = "RuntimeClass"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def handles(self, attrs: Attributes) -> bool:
        return attrs.resource == ("", "pods") and not attrs.subresource and attrs.operation == CREATE

    async def admit(self, attrs: Attributes) -> None:
        spec = spec_of(attrs.object)
        if spec.get("virtualMachine") is not None and "runtimeClassName" not in spec and self._has_machines():
            spec["runtimeClassName"] = MACHINES
        if not spec.get("runtimeClassName"):
            return
        found = self._class_of(attrs, spec)
        overhead = _overhead(found)
        if overhead is not None:
            if spec.get("overhead") and amounts(spec["overhead"]) != amounts(overhead):
                raise attrs.forbid(_MISMATCH)
            spec["overhead"] = dict(overhead)
        _schedule(attrs, spec, (found or {}).get("scheduling") or {})

    async def validate(self, attrs: Attributes) -> None:
        spec = spec_of(attrs.object)
        if not spec.get("runtimeClassName") and not spec.get("overhead"):
            return
        overhead = _overhead(self._class_of(attrs, spec))
        if overhead is not None:
            if amounts(spec.get("overhead")) != amounts(overhead):
                raise attrs.forbid(_MISMATCH)
        elif spec.get("overhead"):
            raise attrs.forbid("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")

    def _has_machines(self) -> bool:
        return self._cluster.get(RUNTIME_CLASS, "", MACHINES) is not None

    def _class_of(self, attrs: Attributes, spec: dict[str, Any]) -> Object | None:
        name = spec.get("runtimeClassName")
        if not name:
            return None
        found = self._cluster.get(RUNTIME_CLASS, "", name)
        if found is None:
            raise attrs.forbid(f'pod rejected: RuntimeClass "{name}" not found')
        return found


def _overhead(runtime_class: Object | None) -> Object | None:
    overhead = (runtime_class or {}).get("overhead")
    return None if overhead is None else overhead.get("podFixed") or {}


def _schedule(attrs: Attributes, spec: dict[str, Any], scheduling: dict[str, Any]) -> None:
    wanted = scheduling.get("nodeSelector")
    if wanted:
        selector = spec.setdefault("nodeSelector", {})
        for key, value in wanted.items():
            if selector.get(key, value) != value:
                raise attrs.forbid(
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                    f"pod.spec.nodeSelector[{key}] = {selector[key]}"
                )
            selector[key] = value
    given = spec.get("tolerations") or []
    more = [toleration for toleration in scheduling.get("tolerations") or () if toleration not in given]
    if more:
        spec["tolerations"] = [*given, *(dict(toleration) for toleration in more)]
