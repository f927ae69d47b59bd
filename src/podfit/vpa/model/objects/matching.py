"""Finds the autoscaler that controls a pod."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from podfit.api.objects import ObjectView
from podfit.api.selectors import LabelSelector
from podfit.vpa.model.objects.pods import controller_of, labels_of
from podfit.vpa.model.objects.policy import has_boost, update_mode


class Target(NamedTuple):
    """The object named by an autoscaler's targetRef. The API version is not compared.

    Autoscalers with a selector of their own have no target: an index stores them under their namespace alone.
    """

    namespace: str
    kind: str
    name: str


SelectorOf = Callable[[ObjectView], LabelSelector | None]
"""The selector of an autoscaler's target, or None when it cannot be read."""
TopmostOf = Callable[[str, ObjectView], Target | None]
"""The topmost controller above an owner reference in a namespace, or None when there is none or it cannot be read."""


def target_of(vpa: ObjectView) -> Target | None:
    reference = (vpa.get("spec") or {}).get("targetRef")
    if not reference:
        return None
    namespace = (vpa.get("metadata") or {}).get("namespace") or ""
    return Target(namespace, reference.get("kind") or "", reference.get("name") or "")


def own_selector(vpa: ObjectView) -> ObjectView | None:
    """The LabelSelector that an autoscaler has instead of a target."""
    spec = vpa.get("spec") or {}
    found: ObjectView | None = None if spec.get("targetRef") else spec.get("selector")
    return found


def index_key(vpa: ObjectView) -> Target | None:
    """The autoscaler's key in the index; None if it selects nothing."""
    if own_selector(vpa) is not None:
        return _selecting((vpa.get("metadata") or {}).get("namespace") or "")
    return target_of(vpa)


def _selecting(namespace: str) -> Target:
    return Target(namespace, "", "")


def by_target(vpas: Iterable[ObjectView]) -> dict[Target, list[ObjectView]]:
    """An index of autoscalers by target, so that the cost of finding a pod's autoscaler does not grow with their
    number."""
    index: dict[Target, list[ObjectView]] = {}
    for vpa in vpas:
        key = index_key(vpa)
        if key is not None:
            index.setdefault(key, []).append(vpa)
    return index


def controlling_vpa(
    pod: ObjectView, index: Mapping[Target, list[ObjectView]], selector_of: SelectorOf, topmost_of: TopmostOf
) -> ObjectView | None:
    """The pod's autoscaler: of several the oldest, or of equally old ones the first by name."""
    owner = controller_of(pod) if index else None
    if not index or (owner is not None and owner.get("kind") == "Node"):
        return None
    namespace = (pod.get("metadata") or {}).get("namespace") or ""
    top = topmost_of(namespace, owner) if owner is not None else None
    labels = labels_of(pod)
    best: ObjectView | None = None
    for vpa in (*index.get(_selecting(namespace), ()), *(index.get(top, ()) if top is not None else ())):
        selector = selector_of(vpa)
        if selector is not None and selector.matches(labels) and (best is None or age(vpa) < age(best)):
            best = vpa
    return best


def acts_on_creation(vpa: ObjectView) -> bool:
    """Whether the autoscaler changes new pods. In mode Off it does so only for a startup boost."""
    return update_mode(vpa) != "Off" or has_boost(vpa)


def age(vpa: ObjectView) -> tuple[str, str]:
    """The sort key by age. If several autoscalers select a pod, the first one controls it."""
    meta = vpa.get("metadata") or {}
    return meta.get("creationTimestamp") or "", meta.get("name") or ""
