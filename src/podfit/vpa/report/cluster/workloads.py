"""Groups pods into workloads by their topmost owner, from plain objects. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from podfit.api.objects import ObjectView
from podfit.vpa.model.objects.pods import controller_of

REPLICATED = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
_DEPTH = 16
"""The maximum depth of owners; more than any real chain, so that a cycle ends."""


class Key(NamedTuple):
    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.kind.lower()}/{self.name}"


@dataclass(slots=True)
class Workload:
    """The unit of sizing: a topmost owner with its pods, or a pod without an owner."""

    key: Key
    object: ObjectView | None
    """The controller whose template creates the pods; None if the owner's kind has no known template."""
    template: ObjectView
    """A pod template, or the pod itself: has `spec` and `metadata`."""
    pods: list[ObjectView] = field(default_factory=list)
    foreign: bool = False
    """Whether the topmost owner is of a custom kind; `object` is what it owns."""

    @property
    def containers(self) -> list[tuple[str, ObjectView]]:
        """The containers, and the init containers that keep running, each with its field of the pod's spec."""
        spec = self.template.get("spec") or {}
        sidecars = [
            container for container in spec.get("initContainers") or () if container.get("restartPolicy") == "Always"
        ]
        found = [("initContainers", sidecar) for sidecar in sidecars]
        return found + [("containers", container) for container in spec.get("containers") or ()]

    @property
    def replicas(self) -> int:
        """The number of pods; if there are none, the desired number."""
        if self.pods:
            return len(self.pods)
        spec = (self.object or {}).get("spec") or {}
        return int(spec.get("replicas", 1) or 0) if self.key.kind in REPLICATED else 0


def gathered(pods: Iterable[ObjectView], controllers: Mapping[str, Iterable[ObjectView]]) -> dict[Key, Workload]:
    """All workloads by key. `controllers` are given by kind; all objects are as an API server lists them."""
    known = {(kind, *_name(controller)): controller for kind, listed in controllers.items() for controller in listed}
    found: dict[Key, Workload] = {}
    for (kind, _, _), controller in known.items():
        key, foreign, below = _topmost(controller, kind, known)
        if below is controller and not foreign:
            found[key] = Workload(key, controller, _template(kind, controller))
    for pod in pods:
        if not _runs(pod):
            continue
        key, foreign, below = _topmost(pod, "Pod", known)
        if key not in found:
            found[key] = Workload(key, None if below is pod else below, _template_of(below, pod), foreign=foreign)
        found[key].pods.append(pod)
    return found


def _topmost(
    controller: ObjectView, kind: str, known: Mapping[tuple[str, str, str], ObjectView]
) -> tuple[Key, bool, ObjectView]:
    """The key of the topmost owner, whether that is of a custom kind, and the highest known object."""
    namespace, name = _name(controller)
    for _ in range(_DEPTH):
        owner = controller_of(controller)
        if owner is None or owner.get("kind") == "Node":
            break
        above = known.get((owner.get("kind") or "", namespace, owner.get("name") or ""))
        if above is None:
            return Key(namespace, owner.get("kind") or "", owner.get("name") or ""), True, controller
        controller, kind, name = above, owner.get("kind") or "", owner.get("name") or ""
    return Key(namespace, kind, name), False, controller


def _name(controller: ObjectView) -> tuple[str, str]:
    meta = controller.get("metadata") or {}
    return meta.get("namespace") or "", meta.get("name") or ""


def _runs(pod: ObjectView) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase not in ("Succeeded", "Failed") and not (pod.get("metadata") or {}).get("deletionTimestamp")


def _template(kind: str, controller: ObjectView) -> ObjectView:
    spec = controller.get("spec") or {}
    if kind == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    return spec.get("template") or {}


def _template_of(below: ObjectView, pod: ObjectView) -> ObjectView:
    return pod if below is pod else (below.get("spec") or {}).get("template") or pod
