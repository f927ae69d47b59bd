"""Selects the pod that a node evicts under memory or disk pressure and composes the message; decides which pods are not
admitted meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from podfit.agent.decide.node.pressure import CrossedThreshold
from podfit.agent.decide.node.thresholds import DISK, MEMORY, PID
from podfit.agent.decide.resize.allocate import is_critical
from podfit.agent.decide.resize.kernel import memory_text
from podfit.api.pods.placement import tolerates
from podfit.api.pods.resources import BEST_EFFORT, pod_requests
from podfit.api.resize.states import MEMORY as RESOURCE
from podfit.api.resize.states import amount

EVICTED = "Evicted"
INODES = "inodes"
_TAINT = {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class Consumer:
    """A pod on this node and its usage; None if that is unknown."""

    uid: str
    pod: Mapping[str, Any]
    used: int | None
    containers: Mapping[str, int] = field(default_factory=dict)
    resource: str = RESOURCE

    @property
    def requested(self) -> int:
        quantity = pod_requests(self.pod).get(self.resource)
        return quantity.value if quantity is not None else 0

    def rank(self) -> tuple[bool, bool, int, int]:
        """Orders pods for eviction: those of unknown usage first, then those above their request, by priority, then by
        how much they exceed it."""
        over = (self.used or 0) - self.requested
        return self.used is not None, over <= 0, int(self.pod["spec"].get("priority") or 0), -over


def victim(consumers: Sequence[Consumer]) -> Consumer | None:
    """The next pod to evict. Only one at a time: the next reading shows whether that was enough. Critical pods are
    never chosen."""
    return next((consumer for consumer in sorted(consumers, key=Consumer.rank) if not is_critical(consumer.pod)), None)


def message(met: CrossedThreshold, consumer: Consumer) -> str:
    resource = consumer.resource
    number = str if resource == INODES else memory_text
    text = f"The node was low on resource: {resource}. "
    text += f"Threshold quantity: {number(met.least)}, available: {number(met.available)}. "
    spec = consumer.pod["spec"]
    level = amount(spec.get("resources"), RESOURCE).request if resource == RESOURCE else None
    if level is not None and consumer.used is not None:
        text += _over(f"Pod {consumer.pod['metadata']['name']}", consumer.used, level, resource)
    sizes = {
        container["name"]: container
        for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    }
    for name, used in consumer.containers.items():
        request = amount(sizes[name].get("resources"), resource).request or 0 if name in sizes else used
        if used > request:
            text += _over(f"Container {name}", used, request, resource)
    return text


def _over(who: str, used: int, request: int, resource: str) -> str:
    amounts = f"was using {memory_text(used)}, request is {memory_text(request)}"
    return f"{who} {amounts}, has larger consumption of {resource}. "


def refusal(pod: Mapping[str, Any], qos: str, pressed: frozenset[str]) -> tuple[str, str] | None:
    """The reason and message with which a new pod is refused under these pressures. Under memory pressure alone, pods
    with a memory request are admitted."""
    if not pressed or is_critical(pod):
        return None
    if pressed == {MEMORY}:
        tolerated = any(tolerates(toleration, _TAINT) for toleration in pod["spec"].get("tolerations") or ())
        if qos != BEST_EFFORT or tolerated:
            return None
    listed = " ".join(kind for kind in (MEMORY, DISK, PID) if kind in pressed)
    return EVICTED, f"The node had condition: [{listed}]. "
