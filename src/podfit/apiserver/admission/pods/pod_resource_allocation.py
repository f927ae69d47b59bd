"""PodResourceAllocation: only a pod's node may change its allocation.

The designs of 2020 and 2021 show the allocation as `resourcesAllocated`, in the spec or in the status of containers. A
client that omits the field, or sends null, leaves it unchanged; the decoder of the dialect handles that.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.resize.words import RESIZABLE, by_name
from podfit.apiserver.admission.base import CREATE, DELETE, Attributes, Plugin, spec_of
from podfit.apiserver.auth.node import node_name_of
from podfit.apiserver.dialects.designs.design_2020 import FIELD, allocations, allocations_of, same_amounts

_WHERE = ("", "status")


class PodResourceAllocation(Plugin):
    name = "PodResourceAllocation"

    def handles(self, attrs: Attributes) -> bool:
        return attrs.resource == ("", "pods") and attrs.subresource in _WHERE and attrs.operation != DELETE

    async def admit(self, attrs: Attributes) -> None:
        if attrs.dialect is None or not attrs.dialect.only_nodes_allocate or attrs.object is None:
            return
        if attrs.operation == CREATE:
            if not _as_requested(attrs):
                raise attrs.forbid(f"{FIELD} of a new pod must be what its containers request")
        elif attrs.subresource == "status" or attrs.dialect.allocated_in_spec:
            self._by_node(attrs)

    @staticmethod
    def _by_node(attrs: Attributes) -> None:
        if node_name_of(attrs.user) is None and changed(attrs):
            raise attrs.forbid(f"only the node of the pod may change {FIELD}")


def _as_requested(attrs: Attributes) -> bool:
    requests = {
        container.get("name"): (container.get("resources") or {}).get("requests") or {}
        for container in spec_of(attrs.object).get("containers") or ()
    }
    return all(same_amounts(given, requests.get(name)) for name, given in allocations(attrs.submitted or {}).items())


def changed(attrs: Attributes) -> dict[str, tuple[Object, Object]]:
    """The containers whose allocation changes, with the old and the new one in native form. Until a node has reported
    on a container, its requests count as its allocation."""
    before, after = _allocated(attrs.old), _allocated(attrs.object)
    requested = allocations_of(attrs.old) if attrs.old is not None else {}
    had = {name: before.get(name) or (requested.get(name, {}) if amounts else {}) for name, amounts in after.items()}
    return {name: (had[name], amounts) for name, amounts in after.items() if not same_amounts(amounts, had[name])}


def only_resizable(attrs: Attributes) -> bool:
    """Whether the allocations differ in nothing but cpu and memory."""
    return all(_others(after) == _others(before) for before, after in changed(attrs).values())


def _others(amounts: Object) -> Object:
    return {name: amount for name, amount in amounts.items() if name not in RESIZABLE}


def _allocated(pod: Object | None) -> dict[str, Object]:
    statuses = by_name(((pod or {}).get("status") or {}).get("containerStatuses"))
    return {name: container_status.get("allocatedResources") or {} for name, container_status in statuses.items()}
