"""The updater's actions as values: API calls with their bodies, and the Events they cause."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity
from podfit.vpa.model.changing.boost import annotation_key, boost_of, boosted_containers
from podfit.vpa.model.changing.jsonpatch import Patch, add, annotate, container_patch, remove_annotation
from podfit.vpa.model.fitting.container_resources import ContainerResources, resources_for_pod
from podfit.vpa.model.fitting.limitranges import NO_BOUNDS, NamespaceBounds
from podfit.vpa.model.objects.pods import annotations_of, condition, containers, resource_list
from podfit.vpa.model.objects.policy import CPU, container_recommendations, update_mode
from podfit.vpa.model.times import Seconds, from_rfc3339

UPDATED_IN_PLACE = "vpaInPlaceUpdated"
NOTHING_TO_DO = "no resource patches were calculated to apply"


@dataclass(frozen=True, slots=True)
class PodEvent:
    kind: str
    name: str
    reason: str
    message: str
    type: str = "Normal"


@dataclass(frozen=True, slots=True)
class Evict:
    """POST an Eviction; the API server enforces disruption budgets."""

    pod: ObjectView
    vpa: ObjectView

    @property
    def events(self) -> tuple[PodEvent, ...]:
        pod, vpa = self.pod["metadata"]["name"], self.vpa["metadata"]["name"]
        words = "to apply resource recommendation."
        return (
            PodEvent("Pod", pod, "EvictedByVPA", f"Pod was evicted by VPA Updater {words}"),
            PodEvent("VerticalPodAutoscaler", vpa, "EvictedPod", f"VPA Updater evicted Pod {pod} {words}"),
        )


@dataclass(frozen=True, slots=True)
class Resize:
    """PATCH the pod's resize subresource and, if that succeeds, its annotations."""

    pod: ObjectView
    patch: Patch
    annotations: Patch
    unboosted: tuple[str, ...] = ()
    """The containers whose CPU falls because their startup boost has expired."""
    changes: Mapping[tuple[int, str, str], Quantity] = field(init=False, compare=False, repr=False)
    """The fields that the patch sets: (container number, `requests` or `limits`, resource) → amount."""

    def __post_init__(self) -> None:
        found = {}
        for entry in self.patch:
            parts = entry["path"].split("/")
            if len(parts) == 7 and parts[5] in ("requests", "limits"):
                found[int(parts[3]), parts[5], parts[6]] = Quantity.parse(entry["value"])
        object.__setattr__(self, "changes", found)

    @property
    def events(self) -> tuple[PodEvent, ...]:
        name = self.pod["metadata"]["name"]
        return (PodEvent("Pod", name, "InPlaceResizedByVPA", "Pod was resized in place by VPA Updater."),)


def resize(pod: ObjectView, vpa: ObjectView, now: Seconds, bounds: NamespaceBounds = NO_BOUNDS) -> Resize | None:
    """The resize that brings a pod to its recommendation; None if there is nothing to change."""
    expired = expired_boosts(pod, vpa, now)
    originals = _originals(pod, expired)
    if expired and _without_recommendation(vpa):
        wanted = originals
    else:
        recommended = resources_for_pod(vpa, pod, bounds)[0]
        wanted = [_or_original(*pair) for pair in zip(recommended, originals, strict=True)]
    patch: Patch = []
    for index, container in enumerate(containers(pod)):
        if wanted[index].requests or wanted[index].limits:
            patch += container_patch(container, index, wanted[index])[0]
    if not patch:
        return None
    annotations: Patch = []
    if (pod.get("metadata") or {}).get("annotations") is None:
        annotations.append(add("/metadata/annotations", {}))
    annotations.append(annotate(UPDATED_IN_PLACE, "true"))
    annotations += [remove_annotation(annotation_key(name)) for name in expired]
    return Resize(pod, patch, annotations, tuple(expired))


def expired_boosts(pod: ObjectView, vpa: ObjectView, now: Seconds) -> list[str]:
    """The boosted containers whose boost has expired: the pod has been ready for its duration."""
    ready = condition(pod, "Ready") or {}
    if ready.get("status") != "True":
        return []
    since = from_rfc3339(ready.get("lastTransitionTime"))
    found = []
    for name in boosted_containers(pod):
        duration = (boost_of(vpa, name) or {}).get("durationSeconds") or 0
        if duration == 0 or now - since > duration:
            found.append(name)
    return found


def _without_recommendation(vpa: ObjectView) -> bool:
    return update_mode(vpa) == "Off" or not container_recommendations(vpa)


def _or_original(recommended: ContainerResources, original: ContainerResources) -> ContainerResources:
    """The recommended resources of a container; without a recommended CPU, those from before its boost."""
    if CPU in recommended.requests:
        return recommended
    requests, limits = original.requests | recommended.requests, original.limits | recommended.limits
    return ContainerResources(requests, limits)


def _originals(pod: ObjectView, names: list[str]) -> list[ContainerResources]:
    """Containers' resources before their boost, from the annotation. Those with an invalid annotation stay
    unchanged."""
    found = []
    for container in containers(pod):
        name = container.get("name") or ""
        made = ContainerResources()
        if name in names:
            try:
                kept = json.loads(annotations_of(pod)[annotation_key(name)])
                made = ContainerResources(resource_list(kept.get("requests")), resource_list(kept.get("limits")))
            except (ValueError, AttributeError, TypeError):
                made = ContainerResources()
        found.append(made)
    return found
