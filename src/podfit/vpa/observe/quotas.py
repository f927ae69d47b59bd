"""The unused quota of namespaces, minus the amounts reserved since the pass began."""

from __future__ import annotations

from collections.abc import Mapping

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity
from podfit.client import Cache
from podfit.vpa.model.objects.pods import containers
from podfit.vpa.model.objects.policy import RESOURCES
from podfit.vpa.model.room import amount, amounts_of, shown

Amounts = dict[str, int]
"""Amounts by quota names: requests.cpu, limits.memory and so on."""
_NAMES = {
    "requests.cpu": "requests.cpu",
    "cpu": "requests.cpu",
    "requests.memory": "requests.memory",
    "memory": "requests.memory",
    "limits.cpu": "limits.cpu",
    "limits.memory": "limits.memory",
}


class Quotas:
    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._left: dict[str, Amounts] = {}

    def begin(self) -> None:
        """Starts a pass. Quotas are read once per pass; otherwise reservations would be counted twice."""
        self._left = {}

    def left(self, namespace: str) -> Amounts:
        found = self._left.get(namespace)
        if found is None:
            found = self._left[namespace] = self._read(namespace)
        return found

    def take(self, namespace: str, growth: Mapping[str, int], times: int = 1) -> None:
        """Reserves quota for growth; `times=-1` releases it."""
        left = self.left(namespace)
        for name in left:
            left[name] -= times * growth.get(name, 0)

    def missing(self, namespace: str, growth: Mapping[str, int]) -> str:
        """A message about the quota that is missing; empty if there is enough."""
        for name, left in self.left(namespace).items():
            more = growth.get(name, 0)
            if more > 0 and more > left:
                resource = name.partition(".")[2]
                return (
                    f"the quota of namespace {namespace} has {shown(resource, max(0, left))} of {name} left, "
                    f"{shown(resource, more)} more are needed"
                )
        return ""

    def _read(self, namespace: str) -> Amounts:
        left: Amounts = {}
        for quota in self._cache.by("namespace", namespace):
            spec, status = quota.get("spec") or {}, quota.get("status") or {}
            if spec.get("scopes") or spec.get("scopeSelector"):
                # The server decides whether a scoped quota counts this pod, and rejects the pod if it does not fit.
                continue
            for name, hard in (status.get("hard") or {}).items():
                known = _NAMES.get(name)
                if known is not None:
                    resource = known.partition(".")[2]
                    used = Quantity.parse((status.get("used") or {}).get(name) or "0")
                    rest = amount(resource, Quantity.parse(hard)) - amount(resource, used)
                    left[known] = min(rest, left.get(known, rest))
        return left


def counted_by_quota(pod: ObjectView) -> Amounts:
    """The amounts that a quota counts for a pod of this size."""
    requested = amounts_of(pod)
    found = {f"requests.{resource}": requested[resource] for resource in RESOURCES}
    for resource in RESOURCES:
        limits = [
            ((container.get("resources") or {}).get("limits") or {}).get(resource) for container in containers(pod)
        ]
        found[f"limits.{resource}"] = sum(amount(resource, Quantity.parse(text)) for text in limits if text)
    return found


def growth(before: Mapping[str, int], after: Mapping[str, int]) -> Amounts:
    return {name: after[name] - before.get(name, 0) for name in after}
