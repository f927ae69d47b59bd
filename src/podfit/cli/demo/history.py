"""The demo's record of its pods: previous and current sizes, usage over time, resizes up and down. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from podfit.api.objects import Object
from podfit.cli.printing.amounts import RESOURCES, amount_text, number

SPARKS = "▁▂▃▄▅▆▇█"
KEPT = 40
Key = tuple[str, str]
"""(pod, container)"""


@dataclass
class ContainerSeen:
    states: Object = field(default_factory=dict)
    """The row of the four states as last reported by the node."""
    usage: dict[str, deque[int]] = field(
        default_factory=lambda: {resource: deque(maxlen=KEPT) for resource in RESOURCES}
    )
    restarts: int = 0


@dataclass(frozen=True)
class Moved:
    """A resize that has been applied by the kernel."""

    pod: str
    container: str
    resource: str
    kind: str
    before: int
    after: int

    @property
    def up(self) -> bool:
        return self.after > self.before

    def __str__(self) -> str:
        word = "request" if self.kind == "requests" else "limit"
        sizes = " → ".join(amount_text(self.resource, size) for size in (self.before, self.after))
        return f"{self.container}: {self.resource} {word} {sizes} {'▲' if self.up else '▼'} in place"


class Seen:
    def __init__(self) -> None:
        self.containers: dict[Key, ContainerSeen] = {}
        self.moves: list[Moved] = []
        self.ups = self.downs = 0

    def states(self, pod: str, rows: list[Object]) -> list[Moved]:
        """Records an observation of a pod; returns the resizes that the kernel has applied since the last one."""
        found: list[Moved] = []
        for row in rows:
            seen = self.containers.setdefault((pod, row["name"]), ContainerSeen())
            if seen.states.get("actual") and row.get("actual"):
                found += _moved(pod, row["name"], seen.states["actual"], row["actual"])
            seen.states = row
        self.moves += found
        self.ups += sum(change.up for change in found)
        self.downs += sum(not change.up for change in found)
        return found

    def used(self, pod: str, container: str, amounts: Mapping[str, int]) -> None:
        seen = self.containers.setdefault((pod, container), ContainerSeen())
        for resource in RESOURCES:
            if resource in amounts:
                seen.usage[resource].append(amounts[resource])

    def restarted(self, pod: Object) -> None:
        for status in (pod.get("status") or {}).get("containerStatuses") or ():
            seen = self.containers.setdefault((pod["metadata"]["name"], status["name"]), ContainerSeen())
            seen.restarts = int(status.get("restartCount") or 0)

    def forget(self, alive: set[str]) -> None:
        for key in [key for key in self.containers if key[0] not in alive]:
            del self.containers[key]

    @property
    def restarts(self) -> int:
        return sum(container.restarts for container in self.containers.values())

    @property
    def summary(self) -> str:
        return f"resized in place: {self.ups} up, {self.downs} down; restarts: {self.restarts}"


def _moved(pod: str, container: str, before: Object, after: Object) -> list[Moved]:
    found = []
    for kind in ("requests", "limits"):
        old, new = before.get(kind) or {}, after.get(kind) or {}
        for resource in RESOURCES:
            if resource in old and resource in new:
                one, other = number(resource, old[resource]), number(resource, new[resource])
                if one != other:
                    found.append(Moved(pod, container, resource, kind, one, other))
    return found


def spark(values: Any, top: float, width: int = 16) -> str:
    """The last values as a line of blocks, `top` being the full height."""
    shown = list(values)[-width:]
    most = max([top, *shown, 1])
    return "".join(SPARKS[min(len(SPARKS) - 1, int(value / most * (len(SPARKS) - 1) + 0.5))] for value in shown)
