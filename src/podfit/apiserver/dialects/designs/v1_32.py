"""Kubernetes 1.32 with the gate InPlacePodVerticalScaling: resources are changed through `/resize` only.

Every resize is Proposed until the node has decided on it, including one back to the allocation, or of a pod that has no
node yet. `allocatedResources` is not shown: it required another gate.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.resize import words as resize_words
from podfit.api.resize.conditions import IN_PROGRESS_WORD, PROPOSED
from podfit.api.resize.dialects import V1_32
from podfit.api.resize.words import by_name
from podfit.apiserver.dialects.designs.released import RESIZE, Released
from podfit.apiserver.dialects.types import edit

_ALLOCATED = "allocatedResources"


class V132(Released):
    name = V1_32
    edits = {**RESIZE, "ContainerStatus": edit((_ALLOCATED,))}
    on_pod, on_resize = False, True

    def resize(self, pod: Object) -> str:
        resize = resize_words.resize_of(pod)
        if resize.unanswered and (resize.pending or resize.in_progress or resize_words.gap_of(pod).any):
            return PROPOSED
        if resize.unanswered and _waits_for_a_node(pod):
            return PROPOSED
        return resize.pending or (IN_PROGRESS_WORD if resize.in_progress else "")

    def show_statuses(self, status: Object, pod: Object) -> None:
        for field in ("containerStatuses", "initContainerStatuses"):
            if field in status:
                status[field] = [_hidden(container_status) for container_status in status[field]]

    def read_statuses(self, status: Object, shown: Object, submitted: Object, old: Object) -> None:
        before = old.get("status") or {}
        for field in ("containerStatuses", "initContainerStatuses"):
            stored = by_name(before.get(field))
            if status.get(field):
                status[field] = [
                    _allocated(container_status, stored.get(container_status.get("name", "")))
                    for container_status in status[field]
                ]

    def read_resize(
        self, status: Object, conditions: list[Object], written: object, submitted: Object, old: Object, now: str
    ) -> list[Object]:
        if not written or written == IN_PROGRESS_WORD:
            # The node cannot write its allocation; accepting a resize implies it.
            requests = {
                container["name"]: (container.get("resources") or {}).get("requests")
                for container in old["spec"].get("containers") or ()
            }
            status["containerStatuses"] = [
                {**container_status, _ALLOCATED: dict(given)}
                if (given := requests.get(container_status.get("name", "")))
                else container_status
                for container_status in status.get("containerStatuses") or ()
            ]
        return super().read_resize(status, conditions, written, submitted, old, now)


def _waits_for_a_node(pod: Object) -> bool:
    """Whether the pod has been resized before it was bound to a node."""
    if (pod.get("status") or {}).get("containerStatuses"):
        return False
    return any(entry.get("subresource") == "resize" for entry in pod["metadata"].get("managedFields") or ())


def _hidden(status: Object) -> Object:
    return {key: value for key, value in status.items() if key != _ALLOCATED} if _ALLOCATED in status else status


def _allocated(status: Object, stored: Object | None) -> Object:
    if stored is None or _ALLOCATED not in stored:
        return status
    return {**status, _ALLOCATED: stored[_ALLOCATED]}
