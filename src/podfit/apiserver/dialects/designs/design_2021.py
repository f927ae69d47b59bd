"""The design of 2021: `status.resize` is a map by resource, and the status of a container has `resourcesAllocated`.

The API server sets `resourcesAllocated` from the requests of a new pod. A resource is Proposed until the node has
decided on its resize. An unknown value means Deferred: it is stored as the reason of PodResizePending, which readers
that do not know the reason treat as pending.
"""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, Kind
from podfit.api.resize import words as resize_words
from podfit.api.resize.conditions import IN_PROGRESS_WORD, PROPOSED
from podfit.api.resize.dialects import DESIGN_2021
from podfit.api.resize.words import by_name
from podfit.api.schema.types import Field
from podfit.apiserver.dialects import policies
from podfit.apiserver.dialects.base import Dialect
from podfit.apiserver.dialects.types import AMOUNTS, WORDS, edit

_NATIVE, _SHOWN = "allocatedResources", "resourcesAllocated"


class Design2021(Dialect):
    name = DESIGN_2021
    words = policies.renamed("RestartNotRequired", "Restart")
    edits = {
        "PodStatus": edit((), Field("resize", WORDS)),
        "ContainerStatus": edit((_NATIVE,), Field(_SHOWN, AMOUNTS)),
    }
    on_resize = True
    keeps_policies = True
    only_nodes_allocate = True
    binds_nodes = True

    def show_newer(self, kind: Kind, obj: Object) -> Object:
        """Omits `status.resize`: newer types have a string there, and cannot decode a map."""
        shown = self.show(kind, obj)
        if kind != POD or "resize" not in (shown.get("status") or {}):
            return shown
        return {**shown, "status": {key: value for key, value in shown["status"].items() if key != "resize"}}

    def resize(self, pod: Object) -> dict[str, str]:
        return resize_words.words_by_resource(pod)

    def show_statuses(self, status: Object, pod: Object) -> None:
        reported = by_name(status.get("containerStatuses"))
        requests = {container["name"]: _requests(container) for container in pod["spec"].get("containers") or ()}
        if reported:
            status["containerStatuses"] = [
                _in_dialect(container_status, requests.get(container_status.get("name", "")))
                for container_status in status["containerStatuses"]
            ]
        elif any(requests.values()):
            status["containerStatuses"] = [_fresh(container) for container in pod["spec"]["containers"]]
        if "initContainerStatuses" in status:
            status["initContainerStatuses"] = [
                _in_dialect(container_status, None) for container_status in status["initContainerStatuses"]
            ]

    def read_statuses(self, status: Object, shown: Object, submitted: Object, old: Object) -> None:
        before = old.get("status") or {}
        fresh = by_name(shown.get("containerStatuses"))
        for field in ("containerStatuses", "initContainerStatuses"):
            stored = by_name(before.get(field))
            listed = [
                _read(
                    container_status,
                    stored.get(container_status.get("name", "")),
                    fresh.get(container_status.get("name", "")),
                )
                for container_status in status.get(field) or ()
                if container_status.get("name") in stored
                or container_status != fresh.get(container_status.get("name", ""))
            ]
            if listed or field in before:
                status[field] = listed
            else:
                status.pop(field, None)

    def is_proposed(self, written: Any) -> bool:
        return isinstance(written, dict) and PROPOSED in written.values()

    def read_resize(
        self, status: Object, conditions: list[Object], written: Any, submitted: Object, old: Object, now: str
    ) -> list[Object]:
        values = set(written.values()) if isinstance(written, dict) else set()
        if PROPOSED in values:
            return super().read_resize(status, conditions, PROPOSED, submitted, old, now)
        generation = old["metadata"].get("generation") or 0
        if generation:
            status["observedGeneration"] = generation
        waiting = sorted(values - {IN_PROGRESS_WORD})
        in_progress = IN_PROGRESS_WORD in values
        return resize_words.decided(conditions, waiting[0] if waiting else "", in_progress, generation, now)


def _requests(container: Object) -> Object:
    return (container.get("resources") or {}).get("requests") or {}


def _fresh(container: Object) -> Object:
    """The API server's values for a container on which no node has reported."""
    made = {"name": container["name"], "state": {}, "lastState": {}, "ready": False, "restartCount": 0}
    made |= {"image": container.get("image") or "", "imageID": ""}
    requests = _requests(container)
    return {**made, _SHOWN: requests} if requests else made


def _in_dialect(status: Object, requests: Object | None) -> Object:
    rest = {key: value for key, value in status.items() if key != _NATIVE}
    allocated = status.get(_NATIVE) or requests
    return {**rest, _SHOWN: allocated} if allocated else rest


def _read(status: Object, stored: Object | None, shown: Object | None) -> Object:
    made = {key: value for key, value in status.items() if key != _SHOWN}
    given = status.get(_SHOWN)
    if not given:
        # A client that does not know the field omits it.
        given = (shown or {}).get(_SHOWN)
    if given and (stored is None or stored.get(_NATIVE) or status != shown):
        made[_NATIVE] = given
    return made
