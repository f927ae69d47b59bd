"""Kubernetes 1.27 to 1.31 with the gate InPlacePodVerticalScaling: resources are changed on the pod itself.

`status.resize` is one word. It is Proposed if requests differ from the allocation; a change of limits alone, or back to
the allocation, leaves the word unchanged. The resources of a terminated container are not shown.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.resize import words as resize_words
from podfit.api.resize.conditions import IN_PROGRESS_WORD, PROPOSED
from podfit.api.resize.dialects import V1_31
from podfit.api.resize.words import by_name
from podfit.apiserver.dialects.designs.released import Released

_SIZES = ("allocatedResources", "resources")


class V131(Released):
    name = V1_31
    limit_ranges = False

    def resize(self, pod: Object) -> str:
        resize, gap = resize_words.resize_of(pod), resize_words.gap_of(pod)
        if resize.unanswered and gap.requests:
            return PROPOSED
        if resize.pending:
            return resize.pending
        return IN_PROGRESS_WORD if resize.in_progress and gap.unapplied else ""

    def show_statuses(self, status: Object, pod: Object) -> None:
        if "containerStatuses" in status:
            status["containerStatuses"] = [
                _in_dialect(container_status) for container_status in status["containerStatuses"]
            ]

    def read_statuses(self, status: Object, shown: Object, submitted: Object, old: Object) -> None:
        stored = by_name((old.get("status") or {}).get("containerStatuses"))
        listed = status.get("containerStatuses")
        if listed:
            status["containerStatuses"] = [
                _read(container_status, stored.get(container_status.get("name", ""))) for container_status in listed
            ]


def _in_dialect(status: Object) -> Object:
    if not (status.get("state") or {}).get("terminated"):
        return status
    return {key: value for key, value in status.items() if key not in _SIZES}


def _read(status: Object, stored: Object | None) -> Object:
    """A terminated container, shown without its resources, keeps the stored ones."""
    if stored is None or _in_dialect(stored) is stored or _in_dialect(stored) != status:
        return status
    return stored
