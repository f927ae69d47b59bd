"""Usage of nodes and containers as numbers, passed between components of one process instead of text.

Nodes serve the contents of /metrics/resource to the metrics server in this form, and the metrics server those of
metrics.k8s.io to its clients. Paths and permissions are those of the text forms: the Accept header `ACCEPT` requests
numbers, with JSON as the alternative for a server in another process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

NUMBERS = "application/vnd.podfit.numbers"
THROTTLED = "podfit.dev/cpu-throttled"
"""In the usage of PodMetrics: the fraction of periods in which a container reached its CPU limit, if any."""
ACCEPT = f"{NUMBERS}, application/json"
Key = tuple[str, str, str]
"""(namespace, pod, container)"""


class Reading(NamedTuple):
    """A counter and a gauge, read at the same time."""

    at: float
    cpu_s: float
    memory_bytes: float
    """The working set."""
    started: float = 0.0
    """The start time of the counter; 0 if unknown."""
    periods: float = 0.0
    """Periods in which the CPU limit was enforced, and those in which it was reached; 0 if not counted."""
    throttled_periods: float = 0.0


@dataclass(slots=True)
class NodeReading:
    """The usage of a node and its containers at one time. Read only."""

    node: Reading | None = None
    containers: dict[Key, Reading] = field(default_factory=dict)
    oom_ends: dict[Key, int] = field(default_factory=dict)
    """The number of OOM kills of containers on the node, if any."""


@dataclass(slots=True)
class Numbers:
    """Current usage, as columns. All containers of a pod have the timestamp of the first, as in the text form."""

    keys: list[Key] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)
    memory_bytes: list[float] = field(default_factory=list)
    throttled: list[float] = field(default_factory=list)
    """The fraction of periods in which the CPU limit was reached; 0 if not counted."""
    windows_s: list[float] = field(default_factory=list)
    """The window of the CPU average."""
    oom_ends: dict[Key, int] = field(default_factory=dict)
    """The number of OOM kills, including containers that are not running now. Not part of a slice."""

    def add(
        self,
        key: Key,
        at: float,
        cores: float,
        memory_bytes: float,
        throttled: float = 0.0,
        window_s: float = 60.0,
    ) -> None:
        self.keys.append(key)
        self.at.append(at)
        self.cores.append(cores)
        self.memory_bytes.append(memory_bytes)
        self.throttled.append(throttled)
        self.windows_s.append(window_s)

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, part: slice) -> Numbers:
        at, cores, memory = self.at[part], self.cores[part], self.memory_bytes[part]
        return Numbers(self.keys[part], at, cores, memory, self.throttled[part], self.windows_s[part])
