"""Repeats updates to a runtime that lags behind: the kernel has a container's new limits, and the runtime has not
answered in time.

Whether it carried out the request is unknown. The kernel's values stand, and the runtime is called again until it
answers; if it refuses then, the previous values are restored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from podfit.agent.runtimes.confirmations import Confirmations
from podfit.agent.runtimes.cri.messages.amounts import merged
from podfit.agent.runtimes.cri.state.inventory import Inventory
from podfit.agent.runtimes.cri.state.records import Container
from podfit.agent.runtimes.values import RUNNING, LimitsChange, RuntimeFailure
from podfit.cri import CriError
from podfit.kit.backoff import Backoff

log = logging.getLogger(__name__)

Ask = Callable[[Container, LimitsChange], Awaitable[None]]


class CatchUp:
    def __init__(self, inventory: Inventory, ask: Ask, confirmations: Confirmations) -> None:
        self._inventory, self._ask, self._confirmations = inventory, ask, confirmations
        self._behind: dict[str, tuple[LimitsChange, LimitsChange]] = {}
        """The outstanding update and the values to restore, by container."""

    def with_earlier(self, container_id: str, change: LimitsChange) -> LimitsChange:
        """The change merged with the updates that the runtime has not answered yet."""
        earlier = self._behind.get(container_id)
        return merged(earlier[0], change) if earlier is not None else change

    def done(self, container_id: str) -> None:
        self._behind.pop(container_id, None)

    def later(self, known: Container, change: LimitsChange, undo: LimitsChange) -> None:
        container_id = known.state.id
        earlier = self._behind.get(container_id)
        if earlier is not None:
            change, undo = merged(earlier[0], change), merged(undo, earlier[1])
        self._behind[container_id] = change, undo
        if earlier is None:
            self._inventory.tasks.start(self._run(known), f"cri-update-{container_id}")

    async def _run(self, known: Container) -> None:
        backoff, container_id = Backoff(0.5, 30.0), known.state.id
        while container_id in self._behind and known.state.state == RUNNING:
            await asyncio.sleep(backoff.next())
            async with known.lock:
                if container_id not in self._behind:
                    return
                change, undo = self._behind[container_id]
                try:
                    await self._ask(known, change)
                except CriError as error:
                    if error.unreached:
                        continue
                    if known.running:
                        self._restore(known, undo, error)
                self.done(container_id)
        self.done(container_id)

    def _restore(self, known: Container, undo: LimitsChange, error: CriError) -> None:
        log.warning("container %s: the runtime refuses its resources: %s", known.state.id, error.words)
        put_back(self._inventory, known.group, undo)
        self._confirmations.refuse(known.pod_uid)
        self._inventory.emit("refused", known.pod_uid, known.state.id)


def put_back(inventory: Inventory, group: str, undo: LimitsChange) -> None:
    assert inventory.cgroups is not None
    try:
        inventory.cgroups.write(group, undo)
    except RuntimeFailure as error:
        log.warning("cgroup %s cannot be restored: %s", group, error)
