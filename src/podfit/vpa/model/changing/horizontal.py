"""Horizontal autoscalers with the same target: the vertical autoscaler ignores the resources that they scale by.

Two control loops on one signal interfere: more replicas lower the usage of each, lower usage lowers the request, and a
lower request raises the utilisation, which calls for more replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from podfit.api.objects import ObjectView
from podfit.api.selectors import LabelSelector
from podfit.vpa.model.objects.matching import Target, own_selector, target_of
from podfit.vpa.model.objects.policy import RESOURCES

CONDITION = "ResourceScaledHorizontally"
LabelsOf = Callable[[Target], Mapping[str, str] | None]
"""The labels that a controller gives its pods, or None if they cannot be read."""
_SIZES = ("target", "lowerBound", "upperBound")


def scaled_horizontally(hpas: Iterable[ObjectView]) -> dict[Target, dict[str, str]]:
    """The resources that horizontal autoscalers use, by target, each with the autoscaler's name."""
    found: dict[Target, dict[str, str]] = {}
    for hpa in hpas:
        reference = (hpa.get("spec") or {}).get("scaleTargetRef") or {}
        meta = hpa.get("metadata") or {}
        target = Target(meta.get("namespace") or "", reference.get("kind") or "", reference.get("name") or "")
        for resource in _resources(hpa):
            found.setdefault(target, {}).setdefault(resource, meta.get("name") or "")
    return found


def _resources(hpa: ObjectView) -> Iterable[str]:
    metrics = (hpa.get("spec") or {}).get("metrics")
    if not metrics:
        # A horizontal autoscaler without metrics uses CPU.
        yield "cpu"
        return
    for metric in metrics:
        holder = metric.get("resource") or metric.get("containerResource") or {}
        if metric.get("type") in ("Resource", "ContainerResource") and holder.get("name") in RESOURCES:
            yield holder["name"]


def horizontal_resources(
    vpa: ObjectView, index: Mapping[Target, Mapping[str, str]], labels_of: LabelsOf
) -> Mapping[str, str]:
    """The horizontally scaled resources of the autoscaler's target. For an autoscaler with a selector: of every target
    whose pods it selects."""
    target = target_of(vpa) if index else None
    if target is not None or not index:
        return index.get(target, {}) if target is not None else {}
    selected = own_selector(vpa)
    namespace = (vpa.get("metadata") or {}).get("namespace") or ""
    found: dict[str, str] = {}
    for other, resources in index.items() if selected is not None else ():
        labels = labels_of(other) if other.namespace == namespace else None
        if labels is not None and _selects(selected, labels):
            found = {**resources, **found}
    return found


def _selects(selector: ObjectView | None, labels: Mapping[str, str]) -> bool:
    try:
        return LabelSelector.from_object(selector).matches(labels)
    except (ValueError, KeyError):
        return False


def without(vpa: ObjectView, resources: Iterable[str]) -> ObjectView:
    """The autoscaler without its recommendations for these resources."""
    taken = frozenset(resources)
    recommendation = (vpa.get("status") or {}).get("recommendation")
    if not taken or not recommendation:
        return vpa
    entries = [
        {
            field: {name: amount for name, amount in value.items() if name not in taken} if field in _SIZES else value
            for field, value in entry.items()
        }
        for entry in recommendation.get("containerRecommendations") or ()
    ]
    return {**vpa, "status": {**vpa["status"], "recommendation": {"containerRecommendations": entries}}}


def message(resources: Mapping[str, str]) -> str:
    words = [f"{name} by HorizontalPodAutoscaler {hpa}" for name, hpa in sorted(resources.items())]
    return f"Scaled horizontally: {', '.join(words)}; not changed here."
