"""What other parts of the agent need to know of the node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from podfit.api.quantity import Quantity


class NodeFacts(Protocol):
    @property
    def allocatable(self) -> Mapping[str, Quantity]: ...

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def pressed(self) -> frozenset[str]:
        """The pressures that the machine is under."""

    @property
    def max_pods(self) -> int: ...

    async def refresh(self) -> None:
        """Reads the Node again, as far as the API answers."""
