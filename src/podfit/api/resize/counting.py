"""The size that counts for a pod while it is resized, where an older dialect differs from the native one. Pure.

Natively the largest of desired, allocated and actual counts, for the scheduler and for quotas.

Scheduler: in the design of 2020 a pod on a node counts with its allocation, regardless of its requests; in that of 2021
with the larger of requested and allocated while nothing is decided, and with its allocation once the node has accepted
the resize or found it infeasible.

Quota: both designs apply the quota to the sum of the specs' requests, and require that no component counts less than
the allocation: the larger of the two counts, also for an infeasible resize. Kubernetes 1.31 counted the same except for
infeasible resizes, 1.32 the larger of desired and actual.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.resize.conditions import IN_PROGRESS_WORD, INFEASIBLE
from podfit.api.resize.dialects import DESIGN_2020, DESIGN_2021, V1_31, V1_32
from podfit.api.resize.verdicts import is_resize_infeasible
from podfit.api.resize.words import RESIZABLE, by_name, words_by_resource

_ALLOCATED = "allocatedResources"


def counted(pod: Object, dialect: str | None) -> Object:
    """The pod as the scheduler counts it: with the requests that the design counts, and no fields that native rules
    would count in addition."""
    if dialect not in (DESIGN_2020, DESIGN_2021):
        return pod
    status = pod.get("status") or {}
    reported = by_name(status.get("containerStatuses"))
    if not any(container_status.get(_ALLOCATED) for container_status in reported.values()):
        return pod
    words = words_by_resource(pod) if dialect == DESIGN_2021 else dict.fromkeys(RESIZABLE, IN_PROGRESS_WORD)
    amounts = {
        container["name"]: _amounts(container, reported[container["name"]][_ALLOCATED], words)
        for container in pod["spec"].get("containers") or ()
        if (reported.get(container["name"]) or {}).get(_ALLOCATED)
    }
    containers = [_requesting(container, amounts.get(container["name"])) for container in pod["spec"]["containers"]]
    statuses = [
        _having(container_status, amounts.get(container_status.get("name", "")))
        for container_status in status["containerStatuses"]
    ]
    return {
        **pod,
        "spec": {**pod["spec"], "containers": containers},
        "status": {**status, "containerStatuses": statuses},
    }


def counted_in_quota(pod: Object, dialect: str | None) -> Object:
    """The pod as quotas count it."""
    status = pod.get("status") or {}
    statuses = status.get("containerStatuses")
    if not statuses or dialect not in (DESIGN_2020, DESIGN_2021, V1_31, V1_32):
        return pod
    if dialect == V1_32:
        return {
            **pod,
            "status": {
                **status,
                "containerStatuses": [_without(container_status, _ALLOCATED) for container_status in statuses],
            },
        }
    settled = dialect == V1_31 and is_resize_infeasible(pod)
    words = dict.fromkeys(RESIZABLE, INFEASIBLE if settled else "")
    reported = by_name(statuses)
    containers = [
        _requesting(
            container, _amounts(container, (reported.get(container.get("name", "")) or {}).get(_ALLOCATED) or {}, words)
        )
        for container in pod["spec"].get("containers") or ()
    ]
    return {
        **pod,
        "spec": {**pod["spec"], "containers": containers},
        "status": {
            **status,
            "containerStatuses": [_without(container_status, "resources") for container_status in statuses],
        },
    }


def _without(obj: Object, key: str) -> Object:
    return {name: value for name, value in obj.items() if name != key} if key in obj else obj


def _amounts(container: Object, allocated: Object, words: dict[str, str]) -> Object:
    requests = (container.get("resources") or {}).get("requests") or {}
    made = dict(requests)
    for name in RESIZABLE:
        if name not in allocated:
            continue
        settled = words.get(name) in (IN_PROGRESS_WORD, INFEASIBLE) or name not in requests
        made[name] = allocated[name] if settled else _larger(requests[name], allocated[name])
    return made


def _larger(one: str, other: str) -> str:
    return max(one, other, key=Quantity.parse)


def _requesting(container: Object, amounts: Object | None) -> Object:
    if amounts is None:
        return container
    return {**container, "resources": {**(container.get("resources") or {}), "requests": amounts}}


def _having(status: Object, amounts: Object | None) -> Object:
    if amounts is None or status.get("resources") is None:
        return status
    return {**status, _ALLOCATED: amounts, "resources": {**status["resources"], "requests": amounts}}
