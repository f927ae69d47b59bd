"""The interface through which components of the agent read facts about the node."""

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
        """The pressure conditions that are True on the node."""

    @property
    def max_pods(self) -> int: ...

    async def refresh(self) -> None:
        """Reads the Node again if the API server is reachable."""
