"""Whether a request fits on a node: the arithmetic of the node agent's verdict, shared by all components. Pure.

The agent fills a `Room` from its own ledger before it decides. The command line fills one from the Node and Pods in the
API, and can so compute how much is missing without parsing the agent's message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from podfit.api.objects import ObjectView
from podfit.api.pods.resources import CPU, MEMORY, Amounts, amounts, pod_requests
from podfit.api.quantity import ZERO, Quantity
from podfit.api.resize.conditions import INFEASIBLE, PENDING
from podfit.api.resize.verdicts import Shortage

_COMPUTE: list[str] = [CPU, MEMORY]
COMPUTED = frozenset(_COMPUTE)
_ENDED = ("Succeeded", "Failed")
_REFUSED = [{"type": PENDING, "status": "True", "reason": INFEASIBLE}]


class Room(Struct, frozen=True):
    """The resources of the node, and those held by all pods except the one in question."""

    allocatable: Mapping[str, Quantity]
    used: Mapping[str, Quantity]
    pods: int = 0
    max_pods: int = 110


def units(name: str, quantity: Quantity) -> int:
    """Milli CPUs, or whole units: the unit of messages and comparisons."""
    return quantity.milli if name == CPU else quantity.value


def shortages(needs: Amounts, room: Room, adding: bool = False) -> list[Shortage]:
    """All shortages, in reporting order: pods, cpu, memory, then the rest by name. `adding`: the pod is new to the
    node."""
    found = []
    if adding and room.pods + 1 > room.max_pods:
        found.append(Shortage("pods", 1, room.pods, room.max_pods))
    names = _COMPUTE if needs.keys() <= COMPUTED else [*_COMPUTE, *sorted(needs.keys() - COMPUTED)]
    for name in names:
        if not needs.get(name):
            continue
        wanted = units(name, needs[name])
        used = units(name, room.used.get(name, ZERO))
        capacity = units(name, room.allocatable.get(name, ZERO))
        if wanted > capacity - used:
            found.append(Shortage(name, wanted, used, capacity))
    return found


def grown(needs: Amounts, held: Amounts) -> Amounts:
    """The additional resources that a resize needs: only resources whose request grows are checked."""
    return {name: wanted for name, wanted in needs.items() if units(name, wanted) > units(name, held.get(name, ZERO))}


def held(pod: ObjectView) -> Amounts:
    """The resources that the pod's node has allocated to it, regardless of the spec."""
    return pod_requests({**pod, "status": {**(pod.get("status") or {}), "conditions": _REFUSED}}, use_status=True)


def room_on(node: ObjectView, pods: Iterable[ObjectView], pod: ObjectView) -> Room:
    """The room for `pod`, from the node and from the pods bound to it."""
    others = [other for other in pods if other["metadata"]["uid"] != pod["metadata"]["uid"] and not has_ended(other)]
    used: dict[str, Quantity] = {}
    for other in others:
        for name, amount in held(other).items():
            used[name] = used.get(name, ZERO) + amount
    return Room(amounts((node.get("status") or {}).get("allocatable")), used, len(others))


def missing(pod: ObjectView, room: Room) -> list[Shortage]:
    """The shortages of the node that prevent the pod's resize."""
    return shortages(grown(pod_requests(pod), held(pod)), room)


def has_ended(pod: ObjectView) -> bool:
    return (pod.get("status") or {}).get("phase") in _ENDED
