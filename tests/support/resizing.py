"""Inputs for tests of resize decisions (a pod, its allocation, the node's room), and the agent's verdict on them."""

from __future__ import annotations

from typing import Any

from podfit.agent.decide.resize.allocate import NodePolicy, decide
from podfit.api.pods.room import Room
from podfit.api.quantity import Quantity
from podfit.api.resize.states import Allocated, desired_of


def pod(requests: dict[str, str], limits: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    resources = {"requests": requests, **({"limits": limits} if limits else {})}
    spec = {"containers": [{"name": "c", "resources": resources, **more.pop("container", {})}], **more.pop("spec", {})}
    return {"metadata": {"name": "p", "uid": "u", **more}, "spec": spec}


def holding(cpu: str, memory: str) -> Allocated:
    return Allocated({"c": {"requests": {"cpu": cpu, "memory": memory}}})


def room(cpu: int, memory: int, used_cpu: int = 0, used_memory: int = 0) -> Room:
    return Room(
        {"cpu": Quantity.of_milli(cpu), "memory": Quantity.of_units(memory)},
        {"cpu": Quantity.of_milli(used_cpu), "memory": Quantity.of_units(used_memory)},
    )


def verdict(
    body: dict[str, Any], had: Allocated, space: Room, qos: str = "Burstable", policy: NodePolicy | None = None
) -> Any:
    return decide(body, desired_of(body), had, space, qos, policy or NodePolicy())
