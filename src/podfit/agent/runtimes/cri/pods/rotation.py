"""Rotates container logs, which CRI leaves to the agent: renames the file, and requests that the runtime open a new
one."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress

from podfit.agent.runtimes.cri.state.inventory import Inventory
from podfit.agent.runtimes.cri.state.records import Container
from podfit.agent.runtimes.process.keeper.logfile import rotated_name
from podfit.agent.runtimes.values import RUNNING
from podfit.cri import CriError
from podfit.cri import api_pb2 as api

log = logging.getLogger(__name__)

EVERY_S = 10.0


class Rotation:
    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            await self.check()

    async def check(self) -> None:
        for known in list(self._inventory.containers.values()):
            if known.state.state == RUNNING and 0 <= known.kept.log_max_bytes < _size(known.kept.log_file):
                try:
                    await self._rotate(known)
                except (CriError, OSError) as error:
                    log.warning("the log of container %s cannot be rotated: %s", known.state.id, error)

    async def _rotate(self, known: Container) -> None:
        """Rotates one log. The time is appended to the old file's name, because readers sort by it. If the runtime
        cannot open a new file, it still writes to the old one, which gets its name back."""
        file = known.kept.log_file
        folder, name = os.path.split(file)
        old = sorted(log for log in os.listdir(folder) if log.startswith(f"{name}."))
        for surplus in old[: max(0, len(old) - max(0, known.kept.log_max_files - 2))]:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, surplus))
        rotated = os.path.join(folder, rotated_name(name, old))
        os.rename(file, rotated)
        try:
            await self._inventory.client.ask(
                "ReopenContainerLog", api.ReopenContainerLogRequest(container_id=known.state.id)
            )
        except CriError:
            if not os.path.exists(file):
                os.rename(rotated, file)
            raise


def _size(file: str) -> int:
    try:
        return os.stat(file).st_size
    except OSError:
        return 0
