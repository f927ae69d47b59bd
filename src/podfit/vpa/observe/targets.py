"""Resolves owners and targets: the selector of an autoscaler's target, the topmost controller above a pod, the number
of replicas.

It only reads caches, so that pure decisions can call it in the middle of a pass.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from podfit.api.objects import Object
from podfit.api.selectors import EVERYTHING, LabelSelector
from podfit.client.cache import key_of
from podfit.vpa.model.objects.matching import Target, own_selector
from podfit.vpa.model.objects.pods import controller_of, labels_of
from podfit.vpa.observe import trims
from podfit.vpa.observe.caches import WELL_KNOWN, Caches
from podfit.vpa.observe.scales import Scalable, Scales
from podfit.vpa.updater.decide.groups import GroupKey

OWNED_BY = "podfit.dev/owned-by"
"""A label in the recommender's memory only: the topmost controller of a pod whose labels do not identify it."""
WITHOUT_SELECTOR = ("Job", "CronJob", "ReplicationController")
_LEARNED = 1024
_REMEMBER = 16384
_DEPTH = 16
"""The maximum depth of owners; more than any real chain, so that a cycle ends."""


class Unsupported(ValueError):
    """A target cannot be used; the message is that of the ConfigUnsupported condition."""


class Targets:
    def __init__(self, caches: Caches, scales: Scales) -> None:
        self._caches, self._scales = caches, scales
        self._learned: OrderedDict[tuple[str, str, str], Object] = OrderedDict()
        self._selectors: dict[Target, tuple[Object, LabelSelector]] = {}
        """Selectors by target, each with the object that it was read from."""

    def workload(self, kind: str, namespace: str, name: str) -> Object | None:
        """A controller of a well-known kind, from the cache or from an earlier call of `learn`."""
        found = self._caches.workloads[kind].get(namespace, name)
        return found if found is not None else self._learned.get((kind, namespace, name))

    def learn(self, kind: str, found: Object) -> None:
        """Adds a controller that is not in the caches yet."""
        kept = trims.workload({**found, "kind": kind})
        self._learned[kind, *key_of(kept)] = kept
        if len(self._learned) > _LEARNED:
            self._learned.popitem(last=False)

    # --- autoscalers

    def selector_of(self, vpa: Any) -> LabelSelector | None:
        """The selector for pods whose owner is known to be the target: by labels, or everything if only ownership
        decides."""
        try:
            selector = self.resolve(vpa)
        except Unsupported:
            return None
        return EVERYTHING if selector is not None and _by_owner(selector) else selector

    def labels_of(self, pod: Object) -> Mapping[str, str]:
        """The pod's labels, plus one that names its topmost controller if that has an empty selector."""
        labels, owner = labels_of(pod), controller_of(pod)
        if owner is None or owner.get("kind") not in WITHOUT_SELECTOR:
            return labels
        top = self.topmost_of((pod.get("metadata") or {}).get("namespace") or "", owner)
        if top is None or not self._selects_everything(top):
            return labels
        return {**labels, OWNED_BY: f"{top.kind}.{top.name}"}

    def _selects_everything(self, target: Target) -> bool:
        found = self.workload(target.kind, target.namespace, target.name) if target.kind in WELL_KNOWN else None
        try:
            return found is not None and workload_selector(found) == EVERYTHING
        except Unsupported:
            return False

    def owner_unknown(self, pod: Object) -> bool:
        """Whether the pod belongs to a Job that is not in the cache."""
        owner = controller_of(pod)
        if owner is None or owner.get("kind") != "Job":
            return False
        return self.workload("Job", (pod.get("metadata") or {}).get("namespace") or "", owner.get("name") or "") is None

    def resolve(self, vpa: Any) -> LabelSelector | None:
        """The selector of a target's pods, or the autoscaler's own selector; None if it is not known yet. Raises
        Unsupported."""
        selected = own_selector(vpa)
        if selected is not None:
            return _own(selected)
        reference = (vpa.get("spec") or {}).get("targetRef")
        if not reference:
            reason = "targetRef not defined. If this is a v1beta1 object, switch to v1"
            raise Unsupported(f"Cannot read targetRef. Reason: {reason}")
        namespace = vpa["metadata"].get("namespace", "")
        kind, name = reference.get("kind") or "", reference.get("name") or ""
        if kind not in self._caches.workloads:
            return self._foreign(namespace, reference)
        found = self.workload(kind, namespace, name)
        if found is None:
            raise Unsupported(f"Cannot read targetRef. Reason: {kind} {namespace}/{name} does not exist")
        self._refuse_owned(namespace, reference, found)
        return self._selected_by(Target(namespace, kind, name), found)

    def _selected_by(self, target: Target, found: Object) -> LabelSelector:
        known = self._selectors.get(target)
        if known is not None and known[0] is found:
            return known[1]
        if len(self._selectors) >= _REMEMBER:
            self._selectors.clear()
        selector = workload_selector(found)
        selector = owned_by(target) if selector == EVERYTHING else selector
        self._selectors[target] = found, selector
        return selector

    def _foreign(self, namespace: str, reference: Object) -> LabelSelector | None:
        what = Scalable(
            namespace, reference.get("apiVersion") or "", reference.get("kind") or "", reference.get("name") or ""
        )
        scale = self._scales.check(what)
        if scale is None:
            return None
        if scale.selector is None and scale.problem:
            raise Unsupported(f"Cannot read targetRef. Reason: {scale.problem}")
        return scale.selector

    def _refuse_owned(self, namespace: str, reference: Object, found: Object) -> None:
        owner = controller_of(found)
        if owner is None:
            return
        if self.topmost_of(namespace, owner) is None:
            return
        shown = f"{reference.get('apiVersion') or ''}.{reference.get('kind')}/{reference.get('name')}"
        raise Unsupported(
            f"The target {shown} has a parent controller but it should point to a topmost well-known or scalable "
            "controller"
        )

    # --- pods

    def topmost_of(self, namespace: str, owner: Any) -> Target | None:
        """The topmost well-known or scalable controller above an owner reference."""
        top: Target | None = None
        for _ in range(_DEPTH):
            kind, name = owner.get("kind") or "", owner.get("name") or ""
            if kind not in self._caches.workloads:
                what = Scalable(namespace, owner.get("apiVersion") or "", kind, name)
                scale = None if kind == "Node" else self._scales.check(what)
                # An owner that cannot be scaled, such as an operator's own object, is not a target; the object that it
                # owns is.
                return Target(namespace, kind, name) if scale is not None and scale.selector is not None else top
            found = self.workload(kind, namespace, name)
            if found is None:
                return top
            top = Target(namespace, kind, name)
            above = controller_of(found)
            if above is None:
                return top
            owner = above
        return top

    def template_labels(self, target: Target) -> Mapping[str, str] | None:
        """The labels that a controller of a well-known kind gives its pods."""
        cache = self._caches.workloads.get(target.kind)
        found = cache.get(target.namespace, target.name) if cache is not None else None
        template = ((found or {}).get("spec") or {}).get("template")
        return (template.get("metadata") or {}).get("labels") or {} if template is not None else None

    def wanted_of(self, namespace: str, kind: str, name: str) -> int | None:
        """The desired number of pods of a controller; 0 if it is gone, None for kinds without a known number."""
        if kind not in ("ReplicationController", "ReplicaSet", "StatefulSet"):
            return None
        found = self._caches.workloads[kind].get(namespace, name)
        return 0 if found is None else int((found.get("spec") or {}).get("replicas", 1))

    def replicas_of(self, creator: GroupKey) -> int | None:
        """The desired replicas (of a DaemonSet: the ready ones); None if unknown, 0 for kinds that have no number."""
        if creator.kind not in ("ReplicationController", "ReplicaSet", "StatefulSet", "DaemonSet"):
            return 0
        found = self._caches.workloads[creator.kind].get(creator.namespace, creator.name)
        if found is None:
            return None
        if creator.kind == "DaemonSet":
            return (found.get("status") or {}).get("numberReady") or None
        return (found.get("spec") or {}).get("replicas") or None


def _own(selector: Mapping[str, Any]) -> LabelSelector:
    try:
        return LabelSelector.from_object(selector)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unsupported(f"Cannot read selector. Reason: {error}") from error


def owned_by(target: Target) -> LabelSelector:
    """Selects the pods to which `Targets.labels_of` adds this target."""
    return LabelSelector.of_labels({OWNED_BY: f"{target.kind}.{target.name}"})


def _by_owner(selector: LabelSelector) -> bool:
    return any(requirement.key == OWNED_BY for requirement in selector.requirements)


def workload_selector(found: Object) -> LabelSelector:
    """The selector of a controller's pods. Without template labels a CronJob's is empty, and would select every pod of
    its namespace."""
    spec = found.get("spec") or {}
    kind = found.get("kind")
    if kind == "CronJob":
        template = ((spec.get("jobTemplate") or {}).get("spec") or {}).get("template") or {}
        return LabelSelector.of_labels((template.get("metadata") or {}).get("labels") or {})
    if kind == "ReplicationController":
        return LabelSelector.of_labels(spec.get("selector") or {})
    try:
        return LabelSelector.from_object(spec.get("selector"))
    except ValueError as error:
        raise Unsupported(f"Cannot read targetRef. Reason: {error}") from error
