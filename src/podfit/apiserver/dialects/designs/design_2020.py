"""The design of 2020: the spec of a container has `resourcesAllocated`, which only the node of the pod may change.

There is no field for the state of a resize. Until the node accepts it, `resourcesAllocated` differs from the requests;
it is complete when the resources in the status are those of the spec.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, Kind
from podfit.api.resize import words as resize_words
from podfit.api.resize.conditions import IN_PROGRESS
from podfit.api.resize.dialects import DESIGN_2020
from podfit.api.resize.words import by_name
from podfit.api.schema.types import Field
from podfit.apiserver.dialects import policies
from podfit.apiserver.dialects.base import Dialect
from podfit.apiserver.dialects.types import AMOUNTS, edit

_NATIVE, FIELD = "allocatedResources", "resourcesAllocated"


class Design2020(Dialect):
    name = DESIGN_2020
    words = policies.renamed("NoRestart", "RestartContainer")
    edits = {"Container": edit((), Field(FIELD, AMOUNTS)), "ContainerStatus": edit((_NATIVE,))}
    keeps_policies = True
    allocated_in_spec = True
    only_nodes_allocate = True
    binds_nodes = True

    def show_container(self, container: Object, pod: Object, regular: bool) -> Object:
        shown = super().show_container(container, pod, regular)
        allocated = allocation(container, pod) if regular else {}
        return {**shown, FIELD: allocated} if allocated else shown

    def show_statuses(self, status: Object, pod: Object) -> None:
        for field in ("containerStatuses", "initContainerStatuses"):
            if field in status:
                status[field] = [_hidden(container_status) for container_status in status[field]]

    def read_container(self, submitted: Object, old: Object | None, regular: bool) -> Object:
        made = super().read_container(submitted, old, regular)
        return {key: value for key, value in made.items() if key != FIELD} if FIELD in made else made

    def put_back(self, kind: Kind, submitted: Object, old: Object, now: str) -> Object:
        new = super().put_back(kind, submitted, old, now)
        given, before = allocations(submitted), allocations_of(old) if kind == POD else {}
        changed = {name: amounts for name, amounts in given.items() if not same_amounts(amounts, before.get(name))}
        if changed:
            new["status"] = _allocated(new.get("status") or {}, changed, old, now)
        elif kind == POD and _reports(new, old) and not _unapplied(new):
            reported = new["status"].get("conditions") or ()
            conditions = [condition for condition in reported if condition.get("type") != IN_PROGRESS]
            new["status"] = {**new["status"], "conditions": conditions}
        return new

    def read_statuses(self, status: Object, shown: Object, submitted: Object, old: Object) -> None:
        before, allocated = old.get("status") or {}, allocations_of(old)
        for field in ("containerStatuses", "initContainerStatuses"):
            stored = by_name(before.get(field))
            if status.get(field):
                mine = allocated if field == "containerStatuses" else {}
                status[field] = [
                    _preserved(container_status, stored.get(name := container_status.get("name", "")), mine.get(name))
                    for container_status in status[field]
                ]


def allocation(container: Object, pod: Object) -> Object:
    """The allocation of a container in a native pod: reported by the node, otherwise the requests."""
    status = by_name((pod.get("status") or {}).get("containerStatuses")).get(container.get("name", "")) or {}
    return status.get(_NATIVE) or (container.get("resources") or {}).get("requests") or {}


def allocations_of(pod: Object) -> dict[str, Object]:
    return {container.get("name", ""): allocation(container, pod) for container in pod["spec"].get("containers") or ()}


def allocations(submitted: Object) -> dict[str, Object]:
    """The client's `resourcesAllocated`, by container; those that it omitted or set to null are missing."""
    listed = (submitted.get("spec") or {}).get("containers") or ()
    return {item.get("name", ""): item[FIELD] for item in listed if item.get(FIELD)}


def same_amounts(one: Object, other: Object | None) -> bool:
    return one.keys() == (other or {}).keys() and all(resize_words.same(one[name], (other or {})[name]) for name in one)


def _allocated(status: Object, changed: dict[str, Object], old: Object, now: str) -> Object:
    """The status with the node's allocation; if that equals the requests, the resize is in progress."""
    listed = [
        {**container_status, _NATIVE: changed[container_status["name"]]}
        if container_status.get("name") in changed
        else container_status
        for container_status in status.get("containerStatuses") or ()
    ]
    made = {**status, "containerStatuses": listed}
    after = {**old, "status": made}
    generation = old["metadata"].get("generation") or 0
    if not resize_words.gap_of(after).requests:
        made["observedGeneration"] = generation
        before = status.get("conditions") or ()
        made["conditions"] = resize_words.decided(before, "", _unapplied(after), generation, now)
    return made


def _reports(new: Object, old: Object) -> bool:
    """Whether a node changed the container statuses."""
    after, before = new.get("status") or {}, old.get("status") or {}
    return bool(after.get("containerStatuses")) and after["containerStatuses"] != before.get("containerStatuses")


def _unapplied(pod: Object) -> bool:
    gap = resize_words.gap_of(pod)
    return bool(gap.unapplied | gap.limits)


def _preserved(status: Object, stored: Object | None, allocated: Object | None) -> Object:
    """On the first report of a node about a container, keeps the allocation that was shown until then."""
    if stored is not None and (_NATIVE in stored or status == _hidden(stored)):
        return {**status, _NATIVE: stored[_NATIVE]} if _NATIVE in stored else status
    return {**status, _NATIVE: allocated} if allocated else status


def _hidden(status: Object) -> Object:
    return {key: value for key, value in status.items() if key != _NATIVE}
