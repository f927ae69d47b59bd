"""What containers use, as numbers: how a meter tells parts of its own process what metrics.k8s.io tells in text.

It is had by the same path and with the same permission as the text. `ACCEPT` asks for it and names JSON besides, which
is what a server elsewhere answers with.
"""

from __future__ import annotations

from dataclasses import dataclass, field

NUMBERS = "application/vnd.podfit.numbers"
ACCEPT = f"{NUMBERS}, application/json"
Key = tuple[str, str, str]
"""(namespace, pod, container)"""


@dataclass(slots=True)
class Numbers:
    """Columns. As in the text, all containers of a pod have the time of the one that was measured first."""

    keys: list[Key] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)
    memory_bytes: list[float] = field(default_factory=list)

    def add(self, key: Key, at: float, cores: float, memory_bytes: float) -> None:
        self.keys.append(key)
        self.at.append(at)
        self.cores.append(cores)
        self.memory_bytes.append(memory_bytes)

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, part: slice) -> Numbers:
        return Numbers(self.keys[part], self.at[part], self.cores[part], self.memory_bytes[part])
