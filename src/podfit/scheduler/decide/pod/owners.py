"""Groups of pods for default spreading: those of their Services and of the set that owns them.

Nodes are then scored as if the pod had soft constraints for nodes and zones: kube-scheduler's built-in default
constraints. Updated by the watches; `scores` ranks the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from podfit.api.objects import Object
from podfit.api.selectors import LabelSelector, SelectorError
from podfit.scheduler.decide.pod.terms import HOSTNAME, Matcher, Spread

ZONE = "topology.kubernetes.io/zone"
_DEFAULTS = ((HOSTNAME, 3), (ZONE, 5))
"""(topology key, maxSkew), all of them soft."""
_SETS = {"v1": ("ReplicationController",), "apps/v1": ("ReplicaSet", "StatefulSet")}
_REMEMBERED = 16384
_KEPT = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp")


@dataclass(frozen=True, slots=True)
class SpreadGroup:
    """Pods that should be apart from each other."""

    key: bytes
    """Equal for the same family."""
    spreads: tuple[Spread, ...]


class Owners:
    def __init__(self) -> None:
        self._services: dict[str, dict[str, dict[str, str]]] = {}
        """Selectors by namespace and name."""
        self._sets: dict[tuple[str, str, str], LabelSelector] = {}
        """By kind, namespace and name."""
        self._known: dict[object, SpreadGroup | None] = {}

    # --- updates
    def service(self, before: Object | None, after: Object | None) -> None:
        meta = (after or before or {})["metadata"]
        here = self._services.setdefault(meta.get("namespace") or "", {})
        selector = (after.get("spec") or {}).get("selector") if after is not None else None
        if here.get(meta["name"]) == selector:
            return
        if selector is None:
            here.pop(meta["name"], None)
        else:
            here[meta["name"]] = selector
        self._known.clear()

    def owning_set(self, before: Object | None, after: Object | None) -> None:
        """A ReplicationController, ReplicaSet or StatefulSet."""
        obj = after or before or {}
        key = (obj["kind"], obj["metadata"].get("namespace") or "", obj["metadata"]["name"])
        selector = _selector(after) if after is not None else None
        if self._sets.get(key) == selector:
            return
        if selector is None:
            del self._sets[key]
        else:
            self._sets[key] = selector
        self._known.clear()

    # --- queries
    def family(self, pod: Object) -> SpreadGroup | None:
        """The group that a pod belongs to; None if it belongs to no known group."""
        if not self._services and not self._sets:
            return None
        meta = pod["metadata"]
        namespace, labels = meta.get("namespace") or "", meta.get("labels") or {}
        owner = next(
            (reference for reference in meta.get("ownerReferences") or () if reference.get("controller")), None
        )
        above = (owner["kind"], namespace, owner["name"]) if owner is not None and _is_set(owner) else None
        key = (namespace, above, frozenset(labels.items()))
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = self._find(namespace, labels, above)
        return self._known[key]

    def _find(
        self, namespace: str, labels: Mapping[str, str], above: tuple[str, str, str] | None
    ) -> SpreadGroup | None:
        merged: dict[str, str] = {}
        for selector in self._services.get(namespace, {}).values():
            if selector.items() <= labels.items():
                merged.update(selector)
        owning = self._sets.get(above) if above is not None else None
        requirements = list(LabelSelector.of_labels(merged).requirements)
        requirements += (
            [requirement for requirement in owning.requirements if requirement not in requirements]
            if owning is not None
            else []
        )
        if not requirements:
            return None
        ordered = tuple(
            sorted(requirements, key=lambda requirement: (requirement.key, requirement.operator, requirement.values))
        )
        who = Matcher(frozenset((namespace,)), None, LabelSelector(ordered))
        key = msgspec.json.encode(
            (namespace, [(requirement.key, requirement.operator, requirement.values) for requirement in ordered])
        )
        return SpreadGroup(key, tuple(Spread(key, skew, False, 1, who, True, True, False) for key, skew in _DEFAULTS))


def _is_set(owner: Object) -> bool:
    return owner.get("kind") in _SETS.get(owner.get("apiVersion") or "", ())


def _selector(owner: Object) -> LabelSelector:
    given = (owner.get("spec") or {}).get("selector")
    if owner["kind"] == "ReplicationController":
        return LabelSelector.of_labels(given or {})
    try:
        return LabelSelector.from_object(given)
    except SelectorError:
        return LabelSelector(nothing=True)


def only_selector(obj: Object) -> Object:
    """The cached fields of Services, sets and claims: identity and selector."""
    meta = obj["metadata"]
    kept = {key: meta[key] for key in _KEPT if key in meta}
    return {
        "kind": obj.get("kind", ""),
        "metadata": kept,
        "spec": {"selector": (obj.get("spec") or {}).get("selector")},
    }
