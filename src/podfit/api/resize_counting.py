"""What a pod on a node counts for while it is resized, where an older design says otherwise than the native one. Pure.

Natively the largest of desired, allocated and actual counts. In the design of 2020 it is what is allocated, whatever is
requested; in that of 2021 the larger of requested and allocated while nothing is decided, and what is allocated once
the node has accepted the resize or found it infeasible.
"""

from __future__ import annotations

from podfit.api.quantity import Quantity
from podfit.api.resize_dialects import DESIGN_2020, DESIGN_2021
from podfit.api.resize_states import RESIZABLE, UNDER_WAY, by_name, words_by_resource
from podfit.api.resize_verdicts import INFEASIBLE
from podfit.api.status import Object

_ALLOCATED = "allocatedResources"


def counted(pod: Object, dialect: str | None) -> Object:
    """The pod as it counts: one with the requests that the design counts, and no others that native rules would."""
    if dialect not in (DESIGN_2020, DESIGN_2021):
        return pod
    status = pod.get("status") or {}
    reported = by_name(status.get("containerStatuses"))
    if not any(one.get(_ALLOCATED) for one in reported.values()):
        return pod
    words = words_by_resource(pod) if dialect == DESIGN_2021 else dict.fromkeys(RESIZABLE, UNDER_WAY)
    amounts = {
        one["name"]: _amounts(one, reported[one["name"]][_ALLOCATED], words)
        for one in pod["spec"].get("containers") or ()
        if (reported.get(one["name"]) or {}).get(_ALLOCATED)
    }
    containers = [_requesting(one, amounts.get(one["name"])) for one in pod["spec"]["containers"]]
    statuses = [_having(one, amounts.get(one.get("name", ""))) for one in status["containerStatuses"]]
    return {
        **pod,
        "spec": {**pod["spec"], "containers": containers},
        "status": {**status, "containerStatuses": statuses},
    }


def _amounts(container: Object, allocated: Object, words: dict[str, str]) -> Object:
    requests = (container.get("resources") or {}).get("requests") or {}
    made = dict(requests)
    for name in RESIZABLE:
        if name not in allocated:
            continue
        settled = words.get(name) in (UNDER_WAY, INFEASIBLE) or name not in requests
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
