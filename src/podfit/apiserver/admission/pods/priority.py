"""Priority: resolves priorityClassName to a number when a pod is created, and allows one default class at most."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.apiserver.admission.base import CREATE, UPDATE, Attributes, Cluster, Plugin, meta_of, spec_of

PRIORITY_CLASS = kind_named("PriorityClass")
PREEMPT_LOWER = "PreemptLowerPriority"


class Priority(Plugin):
    name = "Priority"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def handles(self, attrs: Attributes) -> bool:
        if attrs.operation not in (CREATE, UPDATE) or attrs.subresource:
            return False
        return attrs.resource in (("", "pods"), ("scheduling.k8s.io", "priorityclasses"))

    async def admit(self, attrs: Attributes) -> None:
        if attrs.kind.plural != "pods":
            return
        spec = spec_of(attrs.object)
        if attrs.operation == CREATE:
            self._resolve(attrs, spec)
            return
        # Clients that do not know these fields must be able to update pods.
        assert attrs.object is not None
        old = spec_of(attrs.old)
        for field in ("priority", "preemptionPolicy"):
            if spec.get(field) is None and old.get(field) is not None:
                spec = attrs.object["spec"] = {**spec, field: old[field]}

    def _resolve(self, attrs: Attributes, spec: dict[str, Any]) -> None:
        found = self._class_of(attrs, spec)
        value = int(found.get("value") or 0)
        policy = found.get("preemptionPolicy") or PREEMPT_LOWER
        given = spec.get("priority")
        if given is not None and given != value:
            raise attrs.forbid(
                f"the integer value of priority ({given}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name"
            )
        spec["priority"] = value
        given = spec.get("preemptionPolicy")
        if given is not None and given != policy:
            raise attrs.forbid(
                f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name"
            )
        spec["preemptionPolicy"] = policy

    def _class_of(self, attrs: Attributes, spec: dict[str, Any]) -> Object:
        name = spec.get("priorityClassName")
        if name:
            found = self._cluster.get(PRIORITY_CLASS, "", name)
            if found is None:
                raise attrs.forbid(f"no PriorityClass with name {name} was found")
            return found
        default = self._default()
        if default is None:
            return {}
        spec["priorityClassName"] = meta_of(default)["name"]
        return default

    def _default(self) -> Object | None:
        marked = [row for row in self._cluster.list(PRIORITY_CLASS) if row.get("globalDefault")]
        return min(marked, key=lambda row: int(row.get("value") or 0), default=None)

    async def validate(self, attrs: Attributes) -> None:
        if attrs.kind.plural == "pods" or not (attrs.object or {}).get("globalDefault"):
            return
        default = self._default()
        if default is None:
            return
        other = meta_of(default)["name"]
        if attrs.operation == CREATE or other != meta_of(attrs.object).get("name"):
            raise attrs.forbid(f"PriorityClass {other} is already marked as default. Only one default can exist")
