"""The host ports that a pod uses. Pure; the scheduler and the node agent reject pods with conflicting ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Port = tuple[str, str, int]
"""(address, protocol, port) on the host."""
_ANY_ADDRESS = "0.0.0.0"


def host_ports(spec: Mapping[str, Any]) -> tuple[Port, ...]:
    """The host ports of containers and sidecars, which may run at the same time."""
    found = []
    sidecars = [
        container for container in spec.get("initContainers") or () if container.get("restartPolicy") == "Always"
    ]
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else 0)
            if number:
                found.append((port.get("hostIP") or _ANY_ADDRESS, port.get("protocol") or "TCP", int(number)))
    return tuple(found)


def collide(address: str, other: str) -> bool:
    """Whether two addresses with the same port conflict: the wildcard conflicts with every address."""
    return address == other or _ANY_ADDRESS in (address, other)


def any_collide(wanted: Iterable[Port], taken: Iterable[Port]) -> bool:
    held = list(taken)
    return any(port[1:] == other[1:] and collide(port[0], other[0]) for port in wanted for other in held)
