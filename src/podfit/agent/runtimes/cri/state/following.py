"""Follows the runtime: its stream of events if it has one, and a list of everything at intervals.

The kernel reports the exit of most containers (see `exits`); lists find what was missed while the runtime was down, and
exits of processes that this machine's kernel does not know.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from podfit.agent.runtimes.cri.messages.configs import NODE
from podfit.agent.runtimes.values import RUNNING
from podfit.cri import CriError
from podfit.cri import api_pb2 as api

if TYPE_CHECKING:
    from podfit.agent.runtimes.cri.state.inventory import Inventory

log = logging.getLogger(__name__)

RELIST_S = 10.0
UNFOLLOWED_S = 1.0
"""The interval between two lists while the kernel cannot report some container's exit, or the runtime is down."""


class Following:
    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    def loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        return {"cri-relist": self._relist_often(), "cri-events": self._follow()}

    async def _follow(self) -> None:
        inventory = self._inventory
        while True:
            try:
                async for event in inventory.client.follow("GetContainerEvents", api.GetEventsRequest()):
                    if event.container_id in inventory.containers:
                        await inventory.refresh(event.container_id)
                    elif event.pod_sandbox_status.labels.get(NODE) == inventory.node:
                        inventory.relist_soon()
            except CriError as error:
                if error.code == "UNIMPLEMENTED":
                    return
                log.info("the stream of runtime events ended: %s", error)
            await asyncio.sleep(UNFOLLOWED_S)
            inventory.relist_soon()

    async def _relist_often(self) -> None:
        inventory, away = self._inventory, False
        while True:
            try:
                async with asyncio.timeout(UNFOLLOWED_S if away or self._unfollowed() else RELIST_S):
                    await inventory.relist_now.wait()
            except TimeoutError:
                pass
            inventory.relist_now.clear()
            try:
                await inventory.relist()
                away = False
            except CriError as error:
                if not away:
                    log.warning("container runtime at %s: %s", inventory.client.endpoint, error.words)
                away = True

    def _unfollowed(self) -> bool:
        containers, exits = self._inventory.containers, self._inventory.exits
        return any(known.state.state == RUNNING and not exits.followed(cid) for cid, known in containers.items())
